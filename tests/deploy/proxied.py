"""nginx with TLS in front of a server, from the template that people get; the settings of compose.yaml."""

import os
import re
import shutil
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from postgres import free_port

ROOT = Path(__file__).resolve().parents[2]
FRAME = """
daemon off;
pid {folder}/pid;
error_log {folder}/log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""


def program(name):
    """The path of a program, or a skipped test."""
    found = shutil.which(name, path=os.pathsep.join([os.environ["PATH"], "/usr/sbin"]))
    if found is None:
        pytest.skip(f"there is no {name} on this machine")
    return found


def substituted(template, variables):
    """What the image of nginx makes of a template: variables of the environment are replaced, others stay."""
    return re.sub(r"\$\{(\w+)\}", lambda found: variables[found[1]], template)


def certificate(folder):
    """A certificate that signs itself, for localhost, and its key."""
    paths = folder / "tls.crt", folder / "tls.key"
    command = [
        program("openssl"),
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", str(paths[0]), "-keyout", str(paths[1])]
    subprocess.run([*command, *names], check=True, capture_output=True)
    return paths


@contextmanager
def behind_nginx(folder, address, root_path=""):
    """The https address of a server behind nginx, and the certificate."""
    nginx, (signed, key) = program("nginx"), certificate(folder)
    ports = {"HTTP_PORT": f"127.0.0.1:{free_port()}", "HTTPS_PORT": f"127.0.0.1:{free_port()}"}
    variables = ports | {
        "COMBOPEPS_SERVER": urlsplit(address).netloc,
        "COMBOPEPS_ROOT_PATH": root_path,
        "SERVER_NAME": "localhost",
        "TLS_CERTIFICATE": str(signed),
        "TLS_KEY": str(key),
    }
    template = (ROOT / "docs" / "deploy" / "nginx.conf.template").read_text()
    (folder / "site.conf").write_text(substituted(template, variables))
    (folder / "nginx.conf").write_text(FRAME.format(folder=folder) + ("user root;\n" if os.geteuid() == 0 else ""))
    command = [nginx, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "log")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    https = "https://" + ports["HTTPS_PORT"].replace("127.0.0.1", "localhost") + root_path
    try:
        end = time.monotonic() + 20
        while True:
            with suppress(httpx.TransportError):
                httpx.get(https, verify=False)
                break
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < end
            time.sleep(0.02)
        yield https, "http://" + ports["HTTP_PORT"], signed
    finally:
        process.terminate()
        process.wait(20)


def compose():
    """compose.yaml, with the variables of the environment at their defaults unless they are given."""
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((ROOT / "compose.yaml").read_text())


def interpolated(text, **variables):
    """${NAME:-default}, as compose reads it."""
    return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: variables.get(found[1], found[2]), text)


def server_command(**variables):
    """The arguments of the container of the server."""
    return [interpolated(word, **variables) for word in compose()["services"]["server"]["command"]]
