/* Pictures of the rows, by gnuplot. */
#ifndef PLOTS_H
#define PLOTS_H

#include <stdbool.h>

/* Whether pictures can be drawn into the folder; says on stderr why not. Before all measuring. */
bool plots_can_be_drawn(const char *folder);

/* Draws what there are rows for, into suite.plots, and says on stdout what was left out. False: something failed. */
bool plots_draw(void);

#endif
