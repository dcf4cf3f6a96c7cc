"""Names: one kernel is one kernel."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hipbook.traces.names import demangle, normalise, short


@pytest.mark.parametrize(
    ("name", "kept", "bare"),
    [
        ("kernel", "kernel", "kernel"),
        ("kernel.kd", "kernel", "kernel"),
        ("kernel(int, float)", "kernel", "kernel"),
        ("void kernel<float>(float*) [clone .kd]", "kernel<float>", "kernel"),
        ("_Z6kernelIfEvPT_", "kernel<float>", "kernel"),
        ("_Z6kernelIfEvPT_.kd", "kernel<float>", "kernel"),
        (
            "void at::native::(anonymous namespace)::Cat<at::O<4u>, 1>(int, (anonymous namespace)::X)",
            "at::native::(anonymous namespace)::Cat<at::O<4u>, 1>",
            "at::native::(anonymous namespace)::Cat",
        ),
        ("(anonymous namespace)::k(int)", "(anonymous namespace)::k", "(anonymous namespace)::k"),
        ("operator<(A, B)", "operator<", "operator<"),
        ("std::ostream& ns::operator<< <int>(std::ostream&, int)", "ns::operator<< <int>", "ns::operator<< "),
        ("ns::A::operator()<int>(int) const", "ns::A::operator()<int>", "ns::A::operator()"),
        (
            "f{lambda(int)#1}::operator()(int) const",
            "f{lambda(int)#1}::operator()",
            "f{lambda(int)#1}::operator()",
        ),
        ("void a<(T)13, 1, false>(void const*", "a<(T)13, 1, false>", "a"),
        ("auto f<int>(int) -> int", "f<int>", "f"),
        ("k<A<B<int> > >(int)", "k<A<B<int>>>", "k"),
        ("Cijk_Ailk_Bljk_MT16x16", "Cijk_Ailk_Bljk_MT16x16", "Cijk_Ailk_Bljk_MT16x16"),
        ("_Z not mangled", "mangled", "mangled"),
    ],
)
def test_normalised(name, kept, bare):
    assert normalise(name) == kept
    assert normalise(name, templates=True) == bare


def test_mangled_and_demangled_are_one():
    mangled = "_ZN2vt12QuantizeQ8KKILi8EEEvPKfPvi.kd"
    assert demangle(mangled) == "void vt::QuantizeQ8KK<8>(float const*, void*, int)"
    assert normalise(mangled) == normalise("void vt::QuantizeQ8KK<8>(float const*, void*, int) [clone .kd]")


def test_what_is_not_mangled_stays():
    assert demangle("_Znonsense!!") == "_Znonsense!!"
    assert demangle("") == ""
    assert demangle("_Z" + "N1a" * 20_000) == "_Z" + "N1a" * 20_000


@given(st.text(max_size=60))
def test_any_text_is_survived_and_stable(text):
    once = normalise(text)
    assert isinstance(once, str)
    assert isinstance(normalise(text, templates=True), str)
    assert len(short(text)) <= 48


@given(
    st.from_regex(r"[a-z]{1,8}(::[a-z]{1,8}){0,3}", fullmatch=True),
    st.sampled_from(["", "(int)", "(A<b(c)>, d*)"]),
)
def test_parameters_never_matter(name, parameters):
    assert normalise(f"void {name}{parameters}") == name
    assert normalise(f"{name}{parameters}") == name
