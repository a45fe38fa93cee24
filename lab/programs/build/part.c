/* Compiled many times, with another PART each time. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_OF(name, part) name##part
#define NAME(name, part) NAME_OF(name, part)

struct entry {
	char key[32];
	uint32_t count;
};

static int compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	return x->count != y->count ? (x->count < y->count ? 1 : -1) : strcmp(x->key, y->key);
}

static uint32_t hash(const char *text)
{
	uint32_t h = 2166136261u + PART;
	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 16777619u;
	return h;
}

size_t NAME(count_words, PART)(FILE *in, struct entry *table, size_t size)
{
	char word[32];
	size_t used = 0;

	memset(table, 0, size * sizeof *table);
	while (used < size && fscanf(in, "%31s", word) == 1) {
		size_t i = hash(word) % size;
		while (table[i].count && strcmp(table[i].key, word))
			i = (i + 1) % size;
		if (!table[i].count++) {
			strcpy(table[i].key, word);
			used++;
		}
	}
	qsort(table, size, sizeof *table, compare);
	return used;
}

void NAME(multiply, PART)(double *c, const double *a, const double *b, int n)
{
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++) {
			double sum = 0;
			for (int k = 0; k < n; k++)
				sum += a[i * n + k] * b[k * n + j];
			c[i * n + j] = sum;
		}
}
