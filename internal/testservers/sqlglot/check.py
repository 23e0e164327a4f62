"""Fails when a statement is none of its dialect, as far as sqlglot and the rules below can tell.

    check.py snowflake|databricks|trino FILE...

A file holds statements that end with semicolons. Each that fails is printed as FILE:LINE: REASON: STATEMENT. It fails when

- sqlglot cannot parse it, or reads no more of it than its first word, unless OPAQUE names it;
- it has what its dialect has not and sqlglot reads all the same, see refused.

That finds slips and what belongs to another dialect. It does not prove that a warehouse takes a statement: sqlglot knows neither
functions nor types nor most limits.
"""

import logging
import re
import sys

from sqlglot import Dialect, ErrorLevel, TokenType, exp
from sqlglot.errors import SqlglotError

# Statements of the dialect that sqlglot does not parse. Nothing else is asked of them.
OPAQUE = {
    "snowflake": r"ALTER ICEBERG TABLE|CALL|CREATE (OR REPLACE )?STREAM|DESCRIBE RESULT|EXECUTE IMMEDIATE|EXPLAIN|GET|REMOVE|SHOW",
    "databricks": r"BEGIN ATOMIC|DESCRIBE DETAIL|EXECUTE IMMEDIATE|EXPLAIN|MERGE WITH SCHEMA EVOLUTION|OPTIMIZE|RESTORE|SHOW|VACUUM",
    "trino": r"ALTER TABLE \S+ (EXECUTE|SET PROPERTIES)|CALL|EXPLAIN|SHOW",
}


def refused(dialect, statement, tokens):
    """Yields what is in the statement and not in the dialect."""
    snowflake, databricks, trino = (dialect == name for name in ("snowflake", "databricks", "trino"))
    text = (TokenType.STRING, TokenType.IDENTIFIER)
    words = " ".join("x" if t.token_type in text else t.text.upper() for t in tokens)

    def has(kind, what=lambda node: True):
        return any(what(node) for node in statement.find_all(kind))

    def has_type(*names):
        return has(exp.DataType, lambda t: getattr(t.this, "name", "") in names)

    if has(exp.OnConflict):
        yield "ON CONFLICT"
    if has(exp.Returning):
        yield "RETURNING"
    if has(exp.Distinct, lambda d: d.args.get("on") is not None):
        yield "DISTINCT ON"
    if has(exp.Create, lambda c: c.kind == "INDEX"):
        yield "CREATE INDEX"
    if has(exp.LimitOptions, lambda o: o.args.get("percent")):
        yield "LIMIT PERCENT"
    if has_type("SERIAL", "BIGSERIAL", "SMALLSERIAL"):
        yield "SERIAL"

    if databricks or trino:
        if has(exp.Update, lambda u: u.args.get("from_")):
            yield "UPDATE ... FROM"
        if has(exp.Delete, lambda d: d.args.get("using")):
            yield "DELETE ... USING"
        if "ALL BY NAME" in words:
            yield "ALL BY NAME"
        if has(exp.TemporaryProperty) and (trino or statement.find(exp.Create).kind == "TABLE"):
            yield "temporary table"
    if snowflake or trino:
        if has(exp.When, lambda w: w.args.get("source")):
            yield "NOT MATCHED BY SOURCE"
        if has(exp.Merge) and re.search(r"UPDATE SET \*|INSERT \*", words):
            yield "UPDATE SET * or INSERT *"
        if has(exp.Join, lambda j: j.kind in ("SEMI", "ANTI")):
            yield "SEMI or ANTI JOIN"
    if snowflake:
        if has(exp.Create) and "[ ]" in words:
            yield "type with []"
        if has_type("INT128", "UINT128", "JSON", "UUID"):
            yield "such type"
    if trino:
        if has(exp.Alter, lambda a: len(a.args["actions"]) > 1):
            yield "several changes in one ALTER"
        if has(exp.Insert, lambda i: i.args.get("overwrite")):
            yield "INSERT OVERWRITE"
        if isinstance(statement, exp.Insert) and words.startswith("WITH "):
            yield "WITH before INSERT"
        if has(exp.Update, lambda u: u.this and u.this.alias) or has(exp.Delete, lambda d: d.this.alias):
            yield "alias of the target"
        if has(exp.Update, qualified):
            yield "SET table.column"
        if has(exp.Create, lambda c: c.kind == "SEQUENCE"):
            yield "CREATE SEQUENCE"
        if has(exp.Star, lambda s: s.args.get("except_") or s.args.get("replace") or s.args.get("rename")):
            yield "SELECT * EXCEPT or REPLACE"
        if any(t.token_type == TokenType.DCOLON for t in tokens):
            yield "::"
        for kind in (exp.PrimaryKey, exp.PrimaryKeyColumnConstraint, exp.DefaultColumnConstraint, exp.CheckColumnConstraint,
                     exp.GeneratedAsIdentityColumnConstraint, exp.ILike):
            if has(kind):
                yield kind.__name__


def qualified(update):
    return any(isinstance(e, exp.EQ) and isinstance(e.this, exp.Column) and e.this.table for e in update.expressions)


def statements(dialect, text):
    """Yields tokens and text of each statement."""
    tokens = []
    for token in dialect.tokenize(text):
        if token.token_type != TokenType.SEMICOLON:
            tokens.append(token)
        elif tokens:
            yield tokens
            tokens = []
    if tokens:
        yield tokens


def judge(name, dialect, tokens, text):
    if re.match("(%s)\\b" % OPAQUE[name], " ".join(text.split()), re.IGNORECASE):
        return []
    try:
        parsed = dialect.parse(text, error_level=ErrorLevel.RAISE)
    except SqlglotError as e:
        return [str(e).split("\n")[0]]
    if len(parsed) != 1 or parsed[0] is None:
        return ["no statement"]
    if parsed[0].find(exp.Command):
        return ["sqlglot does not know this statement"]
    return ["%s has no %s" % (name, what) for what in refused(name, parsed[0], tokens)]


def main(name, *files):
    logging.disable(logging.CRITICAL)  # sqlglot's warnings
    dialect = Dialect.get_or_raise(name)
    judged = failed = 0
    for file in files:
        with open(file, encoding="utf-8") as f:
            text = f.read()
        try:
            parts = list(statements(dialect, text))
        except SqlglotError as e:
            print("%s: %s" % (file, str(e).split("\n")[0]))
            failed += 1
            continue
        for tokens in parts:
            judged += 1
            statement = text[tokens[0].start : tokens[-1].end + 1]
            for reason in judge(name, dialect, tokens, statement):
                print("%s:%d: %s: %s" % (file, tokens[0].line, reason, " ".join(statement.split())[:160]))
                failed += 1
    if judged == 0:
        sys.exit("no statement in %s" % " ".join(files))
    sys.exit(1 if failed else 0)


if len(sys.argv) < 3 or sys.argv[1] not in OPAQUE:
    sys.exit(__doc__)
main(*sys.argv[1:])
