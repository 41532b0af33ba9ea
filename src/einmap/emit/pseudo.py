def pseudo_text(program):
    return ""
