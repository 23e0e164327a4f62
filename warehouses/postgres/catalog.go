package postgres

// The queries of inspections. Names in pg_catalog are found first in every session, so they stand without a schema.

const typesQuery = `
WITH RECURSIVE asked AS (
  SELECT * FROM unnest($1::oid[], $2::int4[]) WITH ORDINALITY AS u (type, modifier, position)
), below AS (
  SELECT a.position, t.oid, a.modifier, t.typtype, t.typbasetype, t.typtypmod
  FROM asked AS a
  JOIN pg_type AS t ON t.oid = a.type
  UNION ALL
  SELECT b.position, t.oid, b.typtypmod, t.typtype, t.typbasetype, t.typtypmod
  FROM below AS b
  JOIN pg_type AS t ON t.oid = b.typbasetype
  WHERE b.typtype = 'd'
)
SELECT format_type(a.type, a.modifier), CASE b.typtype WHEN 'e' THEN 'text' ELSE format_type(b.oid, b.modifier) END
FROM asked AS a
JOIN below AS b ON b.position = a.position AND b.typtype <> 'd'
ORDER BY a.position`

const tableQuery = `
SELECT c.oid, c.relkind
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2`

const ownerQuery = `
SELECT
  c.oid,
  pg_get_userbyid(c.relowner),
  pg_has_role(c.relowner, 'USAGE'),
  pg_get_userbyid(c.relowner) = current_user,
  obj_description(c.oid, 'pg_class')
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2`

// columnsQuery: the sequence of an identity column is a part of it, any other is known from the column's default.
const columnsQuery = `
SELECT a.attname, a.atttypid, a.atttypmod, a.attnotnull, a.attgenerated <> '', (
    SELECT format('%I.%I', n.nspname, s.relname)
    FROM (
      SELECT objid
      FROM pg_depend
      WHERE (refclassid, refobjid, refobjsubid, classid, deptype) = ('pg_class'::regclass, a.attrelid, a.attnum, 'pg_class'::regclass, 'i')
      UNION ALL
      SELECT refobjid
      FROM pg_depend
      WHERE (classid, objid, refclassid) = ('pg_attrdef'::regclass, d.oid, 'pg_class'::regclass)
    ) AS generator (oid)
    JOIN pg_class AS s ON s.oid = generator.oid AND s.relkind = 'S'
    JOIN pg_namespace AS n ON n.oid = s.relnamespace
    LIMIT 1
  ), (SELECT collname FROM pg_collation WHERE oid = a.attcollation AND NOT collisdeterministic)
FROM pg_attribute AS a
LEFT JOIN pg_attrdef AS d
  ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum`

// dependentsQuery: what makes DROP TABLE without CASCADE fail is what depends on the table, or on a part that is
// dropped with it, and is not such a part itself. A partition of the table is a part, for DROP; here it is not.
const dependentsQuery = `
WITH RECURSIVE part AS (
  SELECT 'pg_class'::regclass::oid AS classid, $1::oid AS objid
  UNION
  SELECT d.classid, d.objid
  FROM part AS p
  JOIN pg_depend AS d
    ON d.refclassid = p.classid AND d.refobjid = p.objid AND d.deptype IN ('a', 'i', 'P', 'S')
)
SELECT DISTINCT pg_describe_object(
    CASE WHEN r.oid IS NULL THEN d.classid ELSE 'pg_class'::regclass END,
    coalesce(r.ev_class, d.objid),
    d.objsubid
  )
FROM part AS p
JOIN pg_depend AS d
  ON d.refclassid = p.classid AND d.refobjid = p.objid AND d.deptype = 'n'
LEFT JOIN pg_rewrite AS r
  ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
WHERE (d.classid, d.objid) NOT IN (SELECT classid, objid FROM part)
UNION
SELECT 'partition ' || pg_describe_object('pg_class'::regclass, i.inhrelid, 0)
FROM pg_inherits AS i
JOIN pg_class AS c ON c.oid = i.inhparent AND c.relkind = 'p'
WHERE i.inhparent = $1::oid
UNION
SELECT 'partition key ' || pg_get_partkeydef(p.partrelid) FROM pg_partitioned_table AS p WHERE p.partrelid = $1::oid
UNION
SELECT 'parent ' || pg_describe_object('pg_class'::regclass, i.inhparent, 0) FROM pg_inherits AS i WHERE i.inhrelid = $1::oid
ORDER BY 1`

// lostQuery leaves out what every new table of the engine has: the generator of ROW_ID and its NOT NULL.
const lostQuery = `
SELECT 'index ' || i.relname
FROM pg_index AS x
JOIN pg_class AS i ON i.oid = x.indexrelid
WHERE x.indrelid = $1::oid
  AND NOT EXISTS (SELECT FROM pg_constraint AS k WHERE k.conrelid = x.indrelid AND k.conindid = x.indexrelid AND k.contype IN ('p', 'u', 'x'))
UNION ALL
SELECT 'constraint ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = $1::oid AND contype IN ('p', 'u', 'x', 'c', 'f')
UNION ALL
SELECT 'trigger ' || tgname FROM pg_trigger WHERE tgrelid = $1::oid AND NOT tgisinternal
UNION ALL
SELECT 'rule ' || rulename FROM pg_rewrite WHERE ev_class = $1::oid
UNION ALL
SELECT 'policy ' || polname FROM pg_policy WHERE polrelid = $1::oid
UNION ALL
SELECT 'statistics ' || stxname FROM pg_statistic_ext WHERE stxrelid = $1::oid
UNION ALL
SELECT 'publication ' || p.pubname FROM pg_publication_rel AS r JOIN pg_publication AS p ON p.oid = r.prpubid WHERE r.prrelid = $1::oid
UNION ALL
SELECT lost
FROM pg_class AS c
CROSS JOIN LATERAL (VALUES
  ('row level security', c.relrowsecurity),
  ('UNLOGGED', c.relpersistence = 'u'),
  ('replica identity', c.relreplident <> 'd'),
  ('tablespace', c.reltablespace <> 0),
  ('storage parameters ' || array_to_string(c.reloptions, ', '), c.reloptions IS NOT NULL)
) AS property (lost, there)
WHERE c.oid = $1::oid AND there
UNION ALL
SELECT lost || a.attname
FROM pg_attribute AS a
JOIN pg_type AS t ON t.oid = a.atttypid
CROSS JOIN LATERAL (VALUES
  ('default of ', a.atthasdef AND a.attgenerated = '' AND a.attname <> 'row_id'),
  ('generation of ', a.attgenerated <> ''),
  ('identity of ', a.attidentity <> '' AND a.attname <> 'row_id'),
  ('NOT NULL of ', a.attnotnull AND a.attname <> 'row_id'),
  ('collation of ', a.attcollation <> t.typcollation),
  ('grants on ', a.attacl IS NOT NULL),
  ('comment of ', col_description(a.attrelid, a.attnum) IS NOT NULL)
) AS property (lost, there)
WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped AND there`

const grantsQuery = `
SELECT r.rolname, string_agg(g.privilege_type, ', ' ORDER BY g.privilege_type), g.is_grantable
FROM pg_class AS c
CROSS JOIN LATERAL aclexplode(c.relacl) AS g
LEFT JOIN pg_roles AS r ON r.oid = g.grantee
WHERE c.oid = $1 AND g.grantee <> c.relowner AND (g.grantee = 0 OR r.oid IS NOT NULL)
GROUP BY r.rolname, g.is_grantable
ORDER BY r.rolname NULLS FIRST, g.is_grantable`

// defaultGranteesQuery: roles that ALTER DEFAULT PRIVILEGES gives something on every new table.
const defaultGranteesQuery = `
SELECT DISTINCT r.rolname
FROM pg_class AS c
JOIN pg_default_acl AS d
  ON d.defaclobjtype = 'r' AND d.defaclnamespace IN (0, c.relnamespace) AND pg_get_userbyid(d.defaclrole) = current_user
CROSS JOIN LATERAL aclexplode(d.defaclacl) AS g
LEFT JOIN pg_roles AS r ON r.oid = g.grantee
WHERE c.oid = $1 AND g.grantee NOT IN (c.relowner, d.defaclrole) AND (g.grantee = 0 OR r.oid IS NOT NULL)
ORDER BY 1`
