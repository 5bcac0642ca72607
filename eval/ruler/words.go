package ruler

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// The word lists; words/README.md says whose.
var (
	//go:embed words/nounlist.txt
	nouns string
	//go:embed words/adjectivelist.txt
	adjectives string
	//go:embed words/verblist.txt
	verbs string
	// WordsLicence is the notice under which the word lists are passed on.
	//go:embed words/LICENSE
	WordsLicence string
)

// lines are a list's words, in its order, trailing white space cut.
func lines(list string) []string {
	out := strings.Split(strings.TrimSuffix(list, "\n"), "\n")
	for i := range out {
		out[i] = strings.TrimRight(out[i], " \t\r")
	}
	return out
}

func sortedSet(words []string) []string {
	slices.Sort(words)
	return slices.Compact(words)
}

// allWords are the different nouns, adjectives and verbs, sorted.
func allWords() []string {
	return sortedSet(slices.Concat(lines(nouns), lines(adjectives), lines(verbs)))
}

// compounds is the sorted set of all adjective-noun strings, of which there are
// millions: it makes the one that is asked for.
type compounds struct {
	nouns  []string
	groups []compoundGroup
}

// compoundGroup holds all compounds of one adjective, and of those that sort
// among them: "wide-eyed-" between "wide-d" and "wide-f".
type compoundGroup struct {
	adjectives []string
	end        int      // compounds up to here
	words      []string // sorted; nil for a single adjective
}

// compoundWords are made once: every needle draws from them.
var compoundWords = sync.OnceValue(func() *compounds {
	c := &compounds{nouns: sortedSet(lines(nouns))}
	adjectives := sortedSet(lines(adjectives))
	slices.SortFunc(adjectives, func(a, b string) int { return strings.Compare(a+"-", b+"-") })
	for i := 0; i < len(adjectives); {
		to := i + 1
		for to < len(adjectives) && strings.HasPrefix(adjectives[to]+"-", adjectives[i]+"-") {
			to++
		}
		c.add(adjectives[i:to])
		i = to
	}
	return c
})

func (c *compounds) add(adjectives []string) {
	g := compoundGroup{adjectives: adjectives, end: c.len() + len(adjectives)*len(c.nouns)}
	if len(adjectives) > 1 {
		for _, a := range adjectives {
			for _, n := range c.nouns {
				g.words = append(g.words, a+"-"+n)
			}
		}
		slices.Sort(g.words)
	}
	c.groups = append(c.groups, g)
}

func (c *compounds) len() int {
	if len(c.groups) == 0 {
		return 0
	}
	return c.groups[len(c.groups)-1].end
}

// at is word i of the sorted set.
func (c *compounds) at(i int) string {
	g, _ := slices.BinarySearchFunc(c.groups, i+1, func(g compoundGroup, n int) int { return g.end - n })
	group := c.groups[g]
	i -= group.end - len(group.adjectives)*len(c.nouns)
	if group.words != nil {
		return group.words[i]
	}
	return fmt.Sprintf("%s-%s", group.adjectives[0], c.nouns[i])
}
