// core/papers/list.h -- X(NAME): core/papers/NAME.c defines `const struct paper paper_NAME`.
X(norm_alignment)
X(layernorm)
X(capa)
X(ira)
