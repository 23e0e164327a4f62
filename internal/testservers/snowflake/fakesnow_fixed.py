"""Runs fakesnow, with its arguments, repairs what a client of gosnowflake trips over, and adds what etl-craft uses of Snowflake.

NULL timestamps: fakesnow builds their Arrow struct without a mask, so that gosnowflake reads 1970-01-01. They get one.

Errors of DuckDB that fakesnow does not know (constraints, values out of range, transactions) become HTTP 500, which gosnowflake
repeats until its deadline and reports without the text. They become errors of SQL: 100072 for NOT NULL, else 603, both 22000.

What fakesnow cannot translate becomes HTTP 500 too. It becomes error 9999 (99999).

Comments of tables: fakesnow does not double quotes in them, and stores 'None' for a table without one.

Session variables: fakesnow looks for them in texts too, and refuses '$tag'. It no longer replaces any.

MERGE and INSERT OVERWRITE: fakesnow runs several statements for one, and others see what each did. They run in one transaction.

AUTOINCREMENT: fakesnow makes its sequence in the session's schema, where other sessions do not find it. It lies beside the table.

Idle connections: the web server ends them after 5 seconds, perhaps while the driver, which sends no statement twice, uses one
again. They last an hour.

Added, as far as etl-craft needs it: SYSTEM$LAST_CHANGE_COMMIT_TIME, a number for each table that grows with each statement that
writes it; SYSTEM$TYPEOF of a column; CURRENT_ACCOUNT_NAME and its like; IS_ROLE_IN_SESSION; COLLATE 'utf8', which is DuckDB's own
order; BINARY with a length; TO_VARCHAR of a decimal with a picture that begins with FM; SHOW TABLES and SHOW ICEBERG TABLES with LIKE and IN SCHEMA,
which know what was created as an Iceberg table; DROP DATABASE, which does nothing; POLICY_REFERENCES, which finds none.
"""

import functools
import re
import sys
import time

import duckdb
import fakesnow.arrow
import fakesnow.cli
import fakesnow.cursor
import fakesnow.info_schema
import fakesnow.macros
import fakesnow.transforms
import pyarrow
import pyarrow.compute
import uvicorn
from snowflake.connector.errors import ProgrammingError
from sqlglot import exp

timestamps_without_mask = fakesnow.arrow.timestamp_to_sf_struct
execute_unknowing = fakesnow.cursor.FakeSnowflakeCursor.execute
explode_apart = fakesnow.cursor.FakeSnowflakeCursor._transform_explode
parse_unknowing = fakesnow.cursor.parse_one
autoincrement_anywhere = fakesnow.transforms.create_table_autoincrement
macros_alone = fakesnow.macros.creation_sql
comment_unquoted = fakesnow.info_schema.insert_table_comment_sql

changed = {}  # when a table was last written, by name
iceberg = {}  # volume and catalog of Iceberg tables, by name


def timestamps(values):
    if isinstance(values, pyarrow.ChunkedArray):
        values = values.combine_chunks()
    struct = timestamps_without_mask(values)
    if values.null_count == 0:
        return struct
    fields = [struct.type.field(i) for i in range(struct.type.num_fields)]
    children = [pyarrow.compute.fill_null(struct.field(i), 0) for i in range(struct.type.num_fields)]
    return pyarrow.StructArray.from_arrays(arrays=children, fields=fields, mask=pyarrow.compute.is_null(values))


def comment_quoted(catalog, schema, table, comment):
    if comment in (None, "None"):
        comment = ""
    return comment_unquoted(catalog, schema, table, comment.replace("'", "''"))


def autoincrement_beside(expression):
    statements = autoincrement_anywhere(expression)
    if len(statements) == 1:
        return statements
    table = expression.this.this
    place = [part for part in (table.args.get("catalog"), table.args.get("db")) if part]
    sequence = statements[0].find(exp.Table)
    beside = ".".join('"%s"' % (p.name if p.quoted else p.name.upper()) for p in place + [sequence.this])
    named = exp.Literal.string(beside) if place else None
    for literal in list(statements[1].find_all(exp.Literal)):
        if named and literal.is_string and literal.name == sequence.name:
            literal.replace(named.copy())
    if named:
        sequence.replace(exp.to_table(beside))
    return statements


NAME = r'(?:"(?:[^"]|"")*"|\w+)'
QUALIFIED = r"(%s(?:\.%s){0,2})" % (NAME, NAME)
WRITES = re.compile(
    r"(?:INSERT\s+(?:OVERWRITE\s+)?INTO|UPDATE|DELETE\s+FROM|MERGE\s+INTO|TRUNCATE(?:\s+TABLE)?"
    r"|(?P<create>CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMP\w*\s+|TRANSIENT\s+)?(?P<iceberg>ICEBERG\s+)?TABLE(?:\s+IF\s+NOT\s+EXISTS)?)"
    r"|(?P<drop>DROP\s+(?:ICEBERG\s+)?TABLE(?:\s+IF\s+EXISTS)?))\s+" + QUALIFIED,
    re.IGNORECASE,
)
LEADING = re.compile(r"\s*(?:/\*.*?\*/\s*)*", re.DOTALL)
VERSION = re.compile(r"SYSTEM\$LAST_CHANGE_COMMIT_TIME\s*\(\s*'((?:[^']|'')*)'\s*\)", re.IGNORECASE)
TYPE = re.compile(r"SYSTEM\$TYPEOF\s*\(\s*(%s(?:\.%s)*)\s*\)" % (NAME, NAME), re.IGNORECASE)
ROLE = re.compile(r"\bIS_ROLE_IN_SESSION\s*\(\s*'(?:[^']|'')*'\s*\)", re.IGNORECASE)
CONSTANT = re.compile(r"\bCURRENT_(ACCOUNT_NAME|ORGANIZATION_NAME|ACCOUNT|REGION|SESSION)\s*\(\s*\)", re.IGNORECASE)
COLLATE = re.compile(r"\s+COLLATE\s+'utf8'", re.IGNORECASE)
BINARY = re.compile(r"\bBINARY\(\d+\)", re.IGNORECASE)
POLICIES = re.compile(r"\bTABLE\(\S+\.policy_references\(.*?\)\)", re.IGNORECASE)
SHOW = re.compile(r"SHOW\s+(ICEBERG\s+)?TABLES\s+LIKE\s+'((?:[^']|'')*)'\s+IN\s+SCHEMA\s+" + QUALIFIED + r"\s*$", re.IGNORECASE)


def parts(name):
    return [p[1:-1].replace('""', '"') if p[0] == '"' else p.upper() for p in re.findall(NAME, name)]


def full(connection, name):
    found = parts(name)
    return ".".join([connection.database, connection.schema][: 3 - len(found)] + found)


def typeof(match):
    types = {
        "TIMESTAMP": "TIMESTAMP_NTZ(9)[SB8]",
        "TIMESTAMP WITH TIME ZONE": "TIMESTAMP_TZ(9)[SB16]",
        "TIME": "TIME(9)[SB8]",
        "JSON": "VARIANT[LOB]",
        '"NULL"': "NULL[LOB]",
    }
    cases = " ".join("WHEN '%s' THEN '%s'" % t for t in types.items())
    return "CASE TYPEOF(%s) %s ELSE 'VARCHAR(16777216)[LOB]' END" % (match[1], cases)


def show(connection, match):
    schema = ".".join(parts(match[3]))
    database, name = schema.split(".")[0], match[2].replace("''", "'")
    volume, catalog = iceberg.get(schema + "." + name, ("", ""))
    if match[1]:
        values = ("name", name), ("external_volume_name", volume), ("catalog_name", catalog), ("iceberg_table_type", "MANAGED"), ("base_location", "")
        selected = ", ".join("'%s' AS \"%s\"" % (v, n) for n, v in values)
        return "SELECT %s WHERE %s" % (selected, "TRUE" if volume else "FALSE")
    flags = {"cluster_by": "", "owner": "SYSADMIN", "change_tracking": "OFF", "search_optimization": "OFF", "enable_schema_evolution": "N"}
    flags.update({"is_external": "N", "is_hybrid": "N", "is_dynamic": "N", "is_iceberg": "Y" if volume else "N", "retention_time": "1", "kind": "TABLE"})
    selected = ", ".join("'%s' AS \"%s\"" % (v, n) for n, v in flags.items())
    return (
        'SELECT table_name AS "name", coalesce(comment, \'\') AS "comment", %s FROM "%s".information_schema.tables '
        "WHERE table_schema = '%s' AND table_name ILIKE '%s'" % (selected, database, schema.split(".")[1], name.replace("'", "''"))
    )


def understood(connection, command):
    start = LEADING.match(command).end()
    if match := SHOW.match(command, start):
        return show(connection, match)
    if re.match(r"DROP\s+DATABASE\b", command[start:], re.IGNORECASE):
        return "SELECT 'It stays until the emulator ends.' AS status"
    command = VERSION.sub(lambda m: str(changed.get(full(connection, m[1].replace("''", "'")), 0)), command)
    command = TYPE.sub(typeof, command)
    command = ROLE.sub("TRUE", command)
    command = CONSTANT.sub(lambda m: str(id(connection)) if m[1].upper() == "SESSION" else "'FAKE'", command)
    command = POLICIES.sub("(SELECT '' AS policy_kind, '' AS policy_name WHERE FALSE)", command)
    return BINARY.sub("BINARY", COLLATE.sub("", command))


def remember(connection, command):
    match = WRITES.match(command, LEADING.match(command).end())
    if not match:
        return
    name = full(connection, match[4])
    changed[name] = max(time.time_ns(), changed.get(name, 0) + 1)
    if match["create"] or match["drop"]:
        iceberg.pop(name, None)
    if match["iceberg"]:
        option = lambda o, default: (re.search(o + r"\s*=\s*'([^']*)'", command) or [None, default])[1]
        iceberg[name] = option("EXTERNAL_VOLUME", "SNOWFLAKE_MANAGED"), option("CATALOG", "SNOWFLAKE")


def exploded_whole(self, expression):
    statements = explode_apart(self, expression)
    if len(statements) == 1 or not isinstance(expression, (exp.Merge, exp.Insert)):
        yield from statements
        return
    if isinstance(expression, exp.Merge):
        yield statements.pop(0)  # a temporary table, which lies in another database
    try:
        self._duck_conn.begin()
        self.began = True
    except duckdb.TransactionException:
        pass  # the client has begun one
    yield from statements
    if self.began:
        self._duck_conn.commit()
        self.began = False


def execute(self, command, *args, **kwargs):
    self.began = False
    try:
        result = execute_unknowing(self, understood(self._conn, command), *args, **kwargs)
    except duckdb.Error as e:
        number = 100072 if "NOT NULL constraint" in str(e) else 603
        raise ProgrammingError(msg=str(e), errno=number, sqlstate="22000") from None
    except (AssertionError, NotImplementedError, ValueError) as e:
        message = "fakesnow: unsupported: %s: %s" % (type(e).__name__, e)
        raise ProgrammingError(msg=message, errno=9999, sqlstate="99999") from None
    finally:
        if self.began:
            self._duck_conn.rollback()
    remember(self._conn, command)
    return result


def with_picture(node):
    if not isinstance(node, exp.ToChar) or not node.args.get("format") or not node.args["format"].name.startswith("FM"):
        return node
    return exp.Anonymous(this="_fs_with_zero", expressions=[exp.cast(node.this.copy(), "VARCHAR")])


def macros_and_ours(catalog):
    zero = "CASE WHEN val[1] = '.' THEN '0' || val WHEN val[1:2] = '-.' THEN '-0' || val[2:] ELSE val END"
    return "%s CREATE OR REPLACE MACRO %s._fs_with_zero(val) AS (%s);" % (macros_alone(catalog), catalog, zero)


def parse(*args, **kwargs):
    return parse_unknowing(*args, **kwargs).transform(with_picture)


fakesnow.arrow.timestamp_to_sf_struct = timestamps
fakesnow.cursor.FakeSnowflakeCursor.execute = execute
fakesnow.cursor.FakeSnowflakeCursor._transform_explode = exploded_whole
fakesnow.cursor.FakeSnowflakeCursor._inline_variables = lambda self, command: command
fakesnow.cursor.parse_one = parse
fakesnow.macros.creation_sql = macros_and_ours
fakesnow.transforms.create_table_autoincrement = autoincrement_beside
fakesnow.info_schema.insert_table_comment_sql = comment_quoted
uvicorn.Config = functools.partial(uvicorn.Config, timeout_keep_alive=3600)

if __name__ == "__main__":
    sys.exit(fakesnow.cli.main(sys.argv[1:]))
