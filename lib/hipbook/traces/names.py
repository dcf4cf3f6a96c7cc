"""Kernel names, so that one kernel is one kernel.

The same kernel is `_Z6kernelIfEvPT_.kd` in one file, `void kernel<float>(float*) [clone .kd]` in another and
`kernel` in a third; a parameter added in between makes it neither gone nor new.
"""

import ctypes
import ctypes.util
import re
from functools import cache, lru_cache

MAX_MANGLED = 20_000  # characters; longer ones are left as they are
_CLONE = re.compile(r"(?:\s*\[clone [^\]]*\])+$")
_OPERATOR = re.compile(r"operator\s*(?:<=>|<<=|>>=|->\*|<<|>>|<=|>=|->|\(\)|<|>)\s*")
_BRACKETS = {"(": ")", "<": ">", "{": "}", "[": "]"}


@cache
def _demangler():
    """`__cxa_demangle` of the C++ runtime that is loaded or installed; None where there is none."""
    for library in ("libstdc++.so.6", "libc++abi.so.1", ctypes.util.find_library("c++"), None):
        try:
            found = ctypes.CDLL(library).__cxa_demangle
        except (OSError, AttributeError, TypeError):
            continue
        found.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
        found.restype = ctypes.c_void_p
        free = ctypes.CDLL(None).free
        free.argtypes = [ctypes.c_void_p]
        return found, free
    return None


@lru_cache(maxsize=65536)
def demangle(name: str) -> str:
    """The demangled form of an Itanium-mangled name; any other name unchanged."""
    plain = _CLONE.sub("", name).removesuffix(".kd")
    tools = _demangler()
    if not plain.startswith("_Z") or tools is None or len(plain) > MAX_MANGLED:
        return name
    call, free = tools
    status = ctypes.c_int(-1)
    pointer = call(plain.encode(), None, None, ctypes.byref(status))
    if not pointer:
        return name
    try:
        return ctypes.string_at(pointer).decode("utf-8", "replace") if status.value == 0 else name
    finally:
        free(pointer)


@lru_cache(maxsize=65536)
def normalise(name: str, templates: bool = False) -> str:
    """The name by which two traces are matched.

    Taken off: `.kd`, ` [clone .kd]`, mangling, the parameter list, the return type; with `templates`
    every template argument list as well. `kernel<float>(float*)` and `kernel<float>(float*, int)` are one
    kernel; `kernel<float>` and `kernel<half>` are one only on request.
    """
    text = demangle(_CLONE.sub("", name.strip()).removesuffix(".kd"))
    text = _CLONE.sub("", text).removesuffix(".kd").strip()
    text = re.sub(r">\s+(?=>)", ">", text)  # two demanglers write `> >` and `>>`
    text = re.sub(r"\) -> [^)]*$", ")", text)  # a trailing return type
    masked = _mask_operators(text)
    end = _parameters_at(masked)
    text, masked = text[:end].rstrip(), masked[:end].rstrip()
    start = _name_at(masked)
    text, masked = text[start:], masked[start:]
    return _without_templates(text, masked) if templates else text


def _mask_operators(text: str) -> str:
    """`operator<` and its like with their brackets blanked, so that brackets balance."""
    return _OPERATOR.sub(lambda match: "operator" + "_" * (len(match[0]) - len("operator")), text)


def _parameters_at(text: str) -> int:
    """Where the outermost parameter list begins, or the length of the text when it has none.

    `(anonymous namespace)` and `{lambda(int)#1}` are parts of a name, not parameters: a list counts only
    at depth 0, behind a name, and with nothing but qualifiers after it.
    """
    depth, opened = 0, None
    closing: list[str] = []
    for place, char in enumerate(text):
        if char == "-" and text[place : place + 2] == "->":
            continue
        if char in _BRACKETS:
            if not closing and char == "(" and not text.startswith("(anonymous", place) and place:
                opened = place
            closing.append(_BRACKETS[char])
        elif closing and char == closing[-1]:
            closing.pop()
            if not closing and char == ")" and opened is not None:
                rest = text[place + 1 :].strip()
                if rest in ("", "const", "noexcept", "const noexcept", "&", "&&", "const &", "const &&"):
                    return opened
                opened = None
        depth = len(closing)
    return opened if opened is not None and depth else len(text)


def _name_at(text: str) -> int:
    """Where the name begins behind a return type: the last space at depth 0."""
    depth, start = 0, 0
    for place, char in enumerate(text):
        if char in "(<{[":
            depth += 1
        elif char in ")>}]":
            depth = max(0, depth - 1)
        elif char == " " and depth == 0:
            start = place + 1
    return start


def _without_templates(text: str, masked: str) -> str:
    """The text with every `<...>` left out; brackets of operators (masked) stay."""
    kept, depth = [], 0
    for char, mask in zip(text, masked, strict=True):
        if mask == "<":
            depth += 1
        elif mask == ">" and depth:
            depth -= 1
        elif not depth:
            kept.append(char)
    return "".join(kept) or text


def short(name: str, width: int = 48) -> str:
    """A name that fits a table or an axis: normalised, template arguments kept, cut in the middle."""
    text = normalise(name).removeprefix("at::native::")
    if len(text) <= width:
        return text
    keep = (width - 3) // 2
    return f"{text[: width - 3 - keep]}...{text[-keep:]}"
