"""The handlers' C source, generated from the semantics tables.

One function an opcode: it fetches its operands as arrays over the 32 lanes, runs the row's expression in a
loop over them (which the compiler vectorises) and puts the result under EXEC. Nothing of a code object
enters this text: it is the same for every kernel and compiled once per machine (native.py).
"""

from functools import cache

from hipbook.emulator.semantics import Row, memory, native, packed, scalar, vector

_FETCH = {  # type: (element, fetch function, does it return a pointer)
    "u32": ("u32", "fetch_u32", True), "i32": ("i32", "fetch_u32", True),
    "b32": ("u32", "fetch_b32", True), "f32": ("f32", "fetch_b32", True),
    "u64": ("u64", "fetch_b64", False), "i64": ("i64", "fetch_b64", False),
    "f64": ("f64", "fetch_b64", False), "f16": ("f16", "fetch_b16", False),
    "u16": ("u16", "fetch_b16", False), "i16": ("i16", "fetch_b16", False),
}  # fmt: skip
_PUT = {
    "u32": "put_u32", "i32": "put_u32", "f32": "put_f32", "u64": "put_u64", "i64": "put_u64",
    "f64": "put_f64", "u16": "put_u16", "i16": "put_u16", "f16": "put_f16",
}  # fmt: skip
_RAW = {"u32": "u32", "i32": "u32", "f32": "u32", "b32": "u32", "u16": "u16", "i16": "u16", "f16": "u16",
        "u64": "u64", "i64": "u64", "f64": "u64"}  # fmt: skip
_HEAD = '#include "alu.h"\n#include "atomics.h"\ntypedef __int128 i128;\n'


def _assigns(code: str) -> bool:
    return any(part.lstrip().startswith("d =") for part in code.split(";"))


def _statements(code: str, target: str = "d") -> str:
    return f"{code};" if _assigns(code) else f"{target} = ({code});"


def _fetches(row: Row) -> tuple[list[str], list[str]]:
    """(lines before the loop, lines at the top of its body)."""
    before, inside = [], []
    for n, (kind, letter) in enumerate(
        zip(row.sources, "abc" if "vcc" not in row.sources else "abcm", strict=False)
    ):
        kind = kind.rstrip("=")
        if kind == "vcc":
            before.append("u32 mask_m = w->s[VCC];")
            inside.append("u32 m = (mask_m >> i) & 1;")
        elif kind == "mask":
            before.append(f"u32 mask_{letter} = fetch_mask(w, r, {n});")
            inside.append(f"u32 {letter} = (mask_{letter} >> i) & 1;")
        else:
            element, function, pointer = _FETCH[kind]
            upper = letter.upper()
            raw = _RAW[kind]
            before.append(f"{raw} tmp_{letter}[LANES] ALIGNED;")
            if pointer:
                before.append(
                    f"const {element} *{upper} = (const {element} *){function}(w, r, {n}, tmp_{letter});"
                )
            else:
                before.append(f"{function}(w, r, {n}, tmp_{letter});")
                before.append(f"const {element} *{upper} = (const {element} *)tmp_{letter};")
            inside.append(f"{element} {letter} = {upper}[i];")
    return before, inside


def _vector(name: str, row: Row) -> str:
    before, inside = _fetches(row)
    result = row.results[0]
    if result in ("mask", "exec"):
        before.append("u32 flags[LANES] ALIGNED;")
        body = " ".join(inside) + f" flags[i] = ({row.code}) ? 1 : 0;"
        after = "put_mask(w, r, lane_mask(flags));" if result == "mask" else "w->s[EXEC] &= lane_mask(flags);"
    elif result in ("sf32", "sf16"):  # a scalar result: computed on the (uniform) first lane
        element = result[1:]
        body = " ".join(inside) + f" {element} d; {_statements(row.code)} first = d; break;"
        before.append(f"{element} first = 0;")
        raw = "AS(u32, first)" if element == "f32" else "AS(u16, first)"
        after = f"w->s[r->dst] = {raw};"
    else:
        before.append(f"{result} out[LANES] ALIGNED;")
        carry = len(row.results) == 2
        if carry:
            before.append("u32 carries[LANES] ALIGNED;")
            inside.append("u32 k;")
        body = " ".join(inside) + f" {result} d; {_statements(row.code)} out[i] = d;"
        after = f"{_PUT[result]}(w, r, (void *)out);"
        if carry:
            body += " carries[i] = k;"
            after += " put_mask2(w, r, lane_mask(carries));"
    return _function(name, before, body, after)


def _function(name: str, before: list[str], body: str, after: str) -> str:
    lines = "\n  ".join(before)
    return (
        f"const Rec *{name}(Wave *w, const Rec *r) {{\n  {lines}\n"
        f"  for (int i = 0; i < LANES; i++) {{ {body} }}\n  {after}\n  return r + 1;\n}}\n"
    )


def _scalar(name: str, row: Row) -> str:
    lines = []
    for n, (kind, letter) in enumerate(zip(row.sources, "abc", strict=False)):
        kind = kind.rstrip("=")
        wide = kind.endswith("64")
        raw = f"scalar{64 if wide else 32}(w, r, {n})"
        if kind == "f32":
            raw = f"AS(f32, {raw})"
        elif kind == "f16":
            raw = f"AS(f16, (u16){raw})"
        lines.append(f"{kind} {letter} = ({kind}){raw};")
    code = row.code.replace("EXECUTING", "w->s[EXEC]")
    if "scc" in code:
        lines.append("u32 scc = w->s[SCC];")
    if row.results:
        result = row.results[0]
        lines.append(f"{result} d;")
        lines.append(_statements(code))
        bits = {"f32": "AS(u32, d)", "f16": "AS(u16, d)"}.get(
            result, "(u64)d" if result.endswith("64") else "(u32)d"
        )
        lines.append(f"put_s64(w, r->dst, {bits});" if result.endswith("64") else f"w->s[r->dst] = {bits};")
    else:
        lines.append(f"{code};")
    if "scc =" in code:
        lines.append("w->s[SCC] = scc != 0;")
    return f"const Rec *{name}(Wave *w, const Rec *r) {{\n  " + "\n  ".join(lines) + "\n  return r + 1;\n}\n"


def _packed(name: str, row: Row) -> str:
    """Both halves of a packed operation."""
    before, element = [], row.results[0]
    declare = {"low": [], "high": []}
    for n, (kind, letter) in enumerate(zip(row.sources, "abc", strict=False)):
        kind = kind.rstrip("=")
        before.append(f"u16 low_{letter}[LANES] ALIGNED, high_{letter}[LANES] ALIGNED;")
        before.append(f"fetch_halves(w, r, {n}, low_{letter}, high_{letter});")
        for half in declare:
            declare[half].append(f"{kind} {letter} = ((const {kind} *){half}_{letter})[i];")
    before += [f"{element} low[LANES] ALIGNED, high[LANES] ALIGNED;", "u32 out[LANES] ALIGNED;"]
    loops = ""
    for half, lines in declare.items():
        body = f"{' '.join(lines)} {element} d; {_statements(row.code)} {half}[i] = d;"
        loops += f"for (int i = 0; i < LANES; i++) {{ {body} }}\n  "
    if element == "f16":
        loops += (
            "if (r->flags & CLAMP) for (int i = 0; i < LANES; i++) {"
            " low[i] = low[i] > (f16)0 ? (low[i] > (f16)1 ? (f16)1 : low[i]) : (f16)0;"
            " high[i] = high[i] > (f16)0 ? (high[i] > (f16)1 ? (f16)1 : high[i]) : (f16)0; }\n  "
        )
    before.append(loops)
    body = "out[i] = ((const u16 *)low)[i] | (u32)((const u16 *)high)[i] << 16;"
    return _function(name, before, body, "put_u32(w, r, out);")


def _words(name: str, row: Row) -> str:
    before, inside = _fetches(row)
    before += [
        "u32 out[LANES] ALIGNED;",
        "int na = r->src[0].flags & NEG, nb = r->src[1].flags & NEG;",
        "(void)na, (void)nb;",
    ]
    body = " ".join(inside) + f" u32 d; {_statements(row.code)} out[i] = d;"
    return _function(name, before, body, "put_u32(w, r, out);")


def _dot(name: str, row: Row) -> str:
    convert = "bf16_to_f32" if row.sources[0] == "bf16" else "half_to_f32"
    before = [
        "u16 la[LANES] ALIGNED, ha[LANES] ALIGNED, lb[LANES] ALIGNED, hb[LANES] ALIGNED;",
        "fetch_halves(w, r, 0, la, ha); fetch_halves(w, r, 1, lb, hb);",
        "u32 tmp[LANES] ALIGNED; const f32 *C = (const f32 *)fetch_b32(w, r, 2, tmp);",
        "f32 out[LANES] ALIGNED;",
    ]
    body = (
        f"f32 a0 = {convert}(la[i]), a1 = {convert}(ha[i]), b0 = {convert}(lb[i]), b1 = {convert}(hb[i]);"
        f" f32 c = C[i], d; {_statements(row.code)} out[i] = d;"
    )
    return _function(name, before, body, "put_f32(w, r, out);")


def _mix(name: str, row: Row) -> str:
    before = [f"f32 {x}[LANES] ALIGNED; fetch_mix(w, r, {n}, {x});" for n, x in enumerate("ABC")]
    element = "f32" if row.results[0] == "f32" else "f16"
    before.append(f"{element} out[LANES] ALIGNED;")
    body = f"f32 a = A[i], b = B[i], c = C[i]; {element} d; {_statements(row.code)} out[i] = d;"
    return _function(name, before, body, f"put_{element}(w, r, out);")


def _all() -> dict[str, str]:
    """Every generated handler by name."""
    out: dict[str, str] = {}
    for name, row in scalar.SCALAR.items():
        out[name] = _scalar(name, row)
    for rows, make in (
        (vector.VECTOR, _vector), (packed.PACKED, _packed), (packed.WORDS, _words), (packed.DOTS, _dot),
        (packed.MIX, _mix),
    ):  # fmt: skip
        for name, row in rows.items():
            out[name] = make(name, row)
    for rows, make in (
        (vector.CLAMPED, _vector),
        (packed.PACKED_CLAMPED, _packed),
        (packed.WORDS_CLAMPED, _words),
    ):
        for name, row in rows.items():
            out[f"{name}_CLAMPED"] = make(f"{name}_CLAMPED", row)
    for name, op in memory.MEMORY.items():
        out[name] = op.code + "\n"
    return out


@cache
def handlers() -> tuple[str, ...]:
    """Handler names in the order of their numbers."""
    return (*native.HELPERS, *native.NATIVE, *_all())


@cache
def number_of(handler: str) -> int:
    return _numbers()[handler]


@cache
def _numbers() -> dict[str, int]:
    return {name: n for n, name in enumerate(handlers())}


def sources(parts: int) -> dict[str, str]:
    """C files by name: the handlers in `parts` pieces (compiled side by side) and the table of them."""
    functions = list(_all().values())
    files = {f"handlers_{part}.c": _HEAD + "\n".join(functions[part::parts]) for part in range(parts)}
    names = handlers()
    files["table.c"] = (
        '#include "wave.h"\n'
        + "".join(f"extern const Rec *{name}(Wave *, const Rec *);\n" for name in names)
        + f"const Handler emu_handlers[] = {{{', '.join(names)}}};\n"
        + f"const u32 emu_handler_count = {len(names)};\n"
    )
    return files
