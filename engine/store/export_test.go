package store

// Queries are all statements by name, parts of statements among them.
func (s *Store) Queries() map[string]string { return s.queries }
