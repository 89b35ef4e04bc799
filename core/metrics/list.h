// core/metrics/list.h -- X(NAME): core/metrics/NAME.c defines `const struct metric metric_NAME`.
X(exact)
X(contains)
X(yesno)
X(letter)
X(loglik)
X(cider)
X(loss)
