def text(out, report):
    return ""
