"""Files of problems that tests of commands share."""

import json

ROADS = [("home", "bridge", 9.0), ("home", "tunnel", 4.0), ("tunnel", "bridge", 2.0), ("bridge", "work", 5.0), ("tunnel", "work", 8.0)]  # fmt: skip


def write_files(folder):
    nodes = sorted({node for edge in ROADS for node in edge[:2]})
    edges = "".join(
        f'<edge source="{u}" target="{v}"><data key="m">{w}</data></edge>' if w is not None else "" for u, v, w in ROADS
    )
    (folder / "roads.graphml").write_text(
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
        '<key id="m" for="edge" attr.name="weight" attr.type="double"/><graph edgedefault="directed">'
        + "".join(f'<node id="{node}"/>' for node in nodes) + edges + "</graph></graphml>"
    )  # fmt: skip
    link = {"directed": True, "multigraph": False, "nodes": [{"id": node} for node in nodes],
            "edges": [{"source": u, "target": v, "weight": w} for u, v, w in ROADS]}  # fmt: skip
    (folder / "roads.json").write_text(json.dumps(link))
    (folder / "beers.csv").write_text("item,mean\nale,0.2\nbock,2.5\ncider,0.4\ndubbel,2.0\n")
    (folder / "crew.csv").write_text("worker,dig,plant\nann,3,2\nbob,9,1\n")
    (folder / "unknown.csv").write_text("worker,dig,plant\nann,?,?\nbob,?,?\n")
