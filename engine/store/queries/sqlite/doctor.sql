-- How large it is and whether it is sound: SQLite says it of its file.

-- name: size
SELECT s.page_size * c.page_count FROM pragma_page_size s, pragma_page_count c

-- name: quick_check
SELECT q.quick_check FROM pragma_quick_check q LIMIT 1
