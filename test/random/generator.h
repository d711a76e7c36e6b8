/* The parts of the generator. */
#ifndef GENERATOR_H
#define GENERATOR_H

#include "world.h"

uint32_t chance(struct generator *generator, uint32_t limit);
bool one_in(struct generator *generator, uint32_t n);
/* Picks a stream of the domain: its place in a device's part of the table. */
int place_of(struct generator *generator, enum domain domain);
enum domain domain_by_chance(struct generator *generator);

/* Add an operation on the generator's object; the use of a call's pointer; a call with its preparations and uses. */
void enqueue(struct generator *generator, int code, int stream, uint32_t a, uint32_t b);
void enqueue_use(struct generator *generator, int code, int stream);
void enqueue_call(struct generator *generator, int code, int stream);

/* ---- Views ---- */

/* Makes a view at the place of a view. Returns false if there is no object with bytes to view. */
bool choose_view(struct generator *generator);
void enqueue_view_of_size(struct generator *generator, uint32_t size);
/* Choose a call on an object in parts: one that this state saw rarely; one that meets the rarest cell of all. */
bool choose_by_parts(struct generator *generator);
bool choose_rarest_in_parts(struct generator *generator);

#endif
