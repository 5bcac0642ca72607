#pragma once
// How attention of few queries is split over blocks: by the number of rows
// alone, so that neither the cache's capacity nor the grid changes a result.
#define SPLITS 64 // parts at most; the grid's size
#define ROWS 64   // rows that a block takes at a time

// Rows of one part: a multiple of ROWS.
__device__ inline int split_rows(int rows) { return (rows + SPLITS * ROWS - 1) / (SPLITS * ROWS) * ROWS; }

// Parts that hold rows.
__device__ inline int split_count(int rows)
{
	int size = split_rows(rows);
	return size ? (rows + size - 1) / size : 0;
}
