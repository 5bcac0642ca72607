#pragma once
// Scores beside any_bin and border, in as many bytes as a round of rows has, at least 16 KiB.
#define SPARE (((SLOT > 16384 ? SLOT : 16384) - 4 * ANY_BINS - 8 * BORDER) / 4)

// What a block selects with and what it finds. A drawn team has a place from 0 on; its rows come after those of the
// places before it.
struct Selection {
	union { // until the teams are drawn
#if FEW_DRAWN
		struct {
			u32 set[SETS]; // largest scores
			Team few[CANDIDATES];
			u64 keys[CANDIDATES];   // before_key
			u32 counts[CANDIDATES]; // 1 << ROW_BITS, and rows
#if QUADS
			int offsets[4 * QUADS * THREADS + 32]; // from first_offset on
#else
			int pick[TOPS]; // groups to look at
#endif
		};
#else
		struct {
			u32 bin[BINS], fine[BINS]; // of the groups' largest scores, and of the candidates
			u64 few[CANDIDATES];       // key, then ~team
			u8 won[CANDIDATES];
			u64 middle[MIDDLE];
			int middle_at[MIDDLE];
			int pick[TOPS];
		};
#endif
		struct {
			u32 any_bin[ANY_BINS];
			u64 border[BORDER];
			float spare[SPARE];
		};
		u8 round[SLOT]; // then a round of rows
	};
	int picks, n, undecided;
	u32 least, low, high, need, found;
	int cross, above, in; // a bin, the keys in those above, and in it
	u32 tops[WARPS], bottoms[WARPS];
	int sums[WARP], totals[4][WARPS];
	u64 key; // of the first team that is not drawn
	// drawn teams
	Team drawn[MOST];
	int before[MOST];
	u16 which[MOST]; // of less
	float less[SCORES]; // of drawn teams: ln c / ln 2; with PLAIN, of candidates, the score without noise
	float tau;
	int teams, rows; // how many are drawn, and the rows of all of them
	bool sure;       // all teams there are
	// rows of this block
	struct { int row, which; } list[LISTED];
	uint4 q[DK / 8];
};
