"""Functions that the scripts share which look at the source tree."""
import os
import re
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# string literals, which may look like comments, and comments
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', re.S)


def files(*patterns):
    """Return existing files of the repository, and new files that git does not ignore."""
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *patterns], cwd=TOP, capture_output=True, text=True, check=True).stdout
    return [f for f in out.split("\n") if f and os.path.isfile(os.path.join(TOP, f))]


def read(f):
    with open(os.path.join(TOP, f), encoding="utf-8") as h:
        return h.read()


def comments(text):
    """Yield (start, comment) of each comment."""
    return ((m.start(), m.group(0)) for m in TOKEN.finditer(text) if m.group(0).startswith(("/*", "//")))


def code_of(text):
    """Return the text with blanked comments; lines stay."""
    return TOKEN.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)) if m.group(0).startswith(("/*", "//")) else m.group(0), text)
