// tui/panel_list.h -- X(NAME): tui/panel_NAME.c defines `const struct panel panel_NAME`.
X(compare)
X(changed)
X(chat)
X(image)
X(settings)
X(dynamics)
X(jobs)
