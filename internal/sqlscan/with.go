package sqlscan

// cte is one entry of a WITH list: its name and the parentheses around its query.
type cte struct {
	name        Ident
	open, close int
}

// withList is a WITH list and the query it belongs to, which begins at token main.
type withList struct {
	recursive bool
	ctes      []cte
	main      int
}

// queryWord reports whether a query can begin with token i.
func (s *Select) queryWord(i int) bool {
	return s.is(i, "SELECT", "WITH", "VALUES", "TABLE") ||
		s.syn.FromFirst && s.is(i, "FROM", "PIVOT", "PIVOT_WIDER", "UNPIVOT", "PIVOT_LONGER")
}

// queryStart reports whether token i stands where a query begins.
func (s *Select) queryStart(i int) bool {
	return i == 0 || s.char(i-1, '(') || s.is(i-1, "UNION", "EXCEPT", "INTERSECT", "MINUS", "ALL", "DISTINCT")
}

// with reads the WITH list at token i. Each CTE and the query after the list must be queries: WITH is also how INSERT,
// UPDATE, DELETE and MERGE hide, inside and after the list.
func (s *Select) with(i int) (withList, error) {
	start, end := i, s.frameEnd(i)
	list := withList{recursive: s.is(i+1, "RECURSIVE") && !s.is(i+2, "AS")}
	i++
	if list.recursive {
		i++
	}
	for {
		if i >= end || !s.isName(i) {
			return list, s.unreadable(start, i, end)
		}
		c := cte{name: s.ident(i)}
		if c.open = s.cteOpen(i+1, end); c.open < 0 {
			return list, s.unreadable(start, i, end)
		}
		c.close = s.toks[c.open].match
		if first := s.lead(c.open + 1); !s.queryWord(first) {
			return list, s.refuse(first, "a CTE must be a query", "the CTE %s begins with %s at %s",
				c.name.Name, s.quote(first), s.at(first))
		}
		list.ctes = append(list.ctes, c)
		i = s.searchAndCycle(c.close+1, end)
		if i < end && s.char(i, ',') {
			i++
			continue
		}
		break
	}
	if i >= end {
		return list, s.unreadable(start, i, end)
	}
	list.main = i
	if first := s.lead(i); !s.queryWord(first) {
		return list, s.refuse(first, "WITH must lead to a query", "the WITH list at %s is followed by %s at %s",
			s.at(start), s.quote(first), s.at(first))
	}
	if s.is(i, "WITH") {
		_, err := s.with(i)
		return list, err
	}
	return list, nil
}

func (s *Select) unreadable(start, i, end int) error {
	if i >= end {
		return s.refuse(start, oneSelect, "the WITH list at %s does not lead to a query", s.at(start))
	}
	return s.refuse(i, "write WITH name AS (SELECT …) SELECT …", "the WITH list at %s cannot be read at %s: %s", s.at(start), s.at(i), s.quote(i))
}

// cteOpen finds the parenthesis that opens a CTE's query: behind AS [NOT] MATERIALIZED, columns and USING KEY.
func (s *Select) cteOpen(i, end int) int {
	for ; i < end; i = s.after(i) {
		switch {
		case s.is(i, "AS"):
			i++
			if s.spells(i, "NOT") {
				i++
			}
			if s.spells(i, "MATERIALIZED") {
				i++
			}
			if i < end && s.char(i, '(') {
				return i
			}
			return -1
		case s.queryWord(i), s.char(i, ','):
			return -1
		}
	}
	return -1
}

// searchAndCycle skips PostgreSQL's SEARCH and CYCLE clauses of a CTE. It reads them word by word: any column in them
// may be called SET or VALUES.
func (s *Select) searchAndCycle(i, end int) int {
	if i+3 < end && s.is(i, "SEARCH") && s.is(i+1, "DEPTH", "BREADTH") && s.is(i+2, "FIRST") && s.is(i+3, "BY") {
		i = s.columnList(i+4) + 2 // SET column
	}
	if i < end && s.is(i, "CYCLE") {
		i = s.columnList(i+1) + 2 // SET column
		for i < end && !s.is(i, "USING") {
			i = s.after(i)
		}
		i += 2 // USING column
	}
	return i
}

func (s *Select) columnList(i int) int {
	for i++; s.char(i, ','); i += 2 {
	}
	return i
}
