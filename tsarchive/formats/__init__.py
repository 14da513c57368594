"""The formats that files may have: an object each, and the registry that tells which a file has.

The modules here are what formats have in common, below the formats themselves; ``foreign`` and
``registry`` stand above them, and only verbs import ``registry``. A format imports the modules that
do its work when it is asked to, so telling formats apart is quick and needs no torch. Formats may
import the rooms below them: the container, pickles, the IR, operators, the frontend, analyses, the
runner, scanners.
"""
