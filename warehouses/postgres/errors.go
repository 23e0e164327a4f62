package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/etl-craft/etl-craft/internal/fault"
)

// SQLSTATEs that this package acts on.
const (
	featureNotSupported   = "0A000"
	uniqueViolation       = "23505"
	readOnlyTransaction   = "25006"
	serializationFailure  = "40001"
	deadlockDetected      = "40P01"
	insufficientPrivilege = "42501"
	syntaxError           = "42601"
	undefinedFunction     = "42883"
	lockNotAvailable      = "55P03"
	queryCanceled         = "57014"
)

func pgError(err error) *pgconn.PgError {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// failed turns an error of the driver into one with a code.
func (s *session) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	s.spoiled = true
	server := pgError(err)
	if ctx.Err() != nil && (server == nil || server.Code == queryCanceled) {
		e := fault.New(fault.TaskCancelled, "the statement was cancelled: %w", context.Cause(ctx))
		if s.conn.IsClosed() {
			e.Message += "; the connection was lost, so it may still run in the server"
		}
		return e
	}
	if server == nil {
		return fault.New(fault.WarehouseDown, "the connection to PostgreSQL was lost: %w", err)
	}
	e := &fault.Error{Code: fault.StatementFailed, Message: describe(server), Hint: firstLine(server.Hint), Retryable: retryable(server.Code), Err: server}
	if conflict(server) {
		e.Code, e.Retryable = fault.WriteConflict, true
	}
	if server.Code == lockNotAvailable && e.Hint == "" {
		e.Hint = "another session uses the table; pg_blocking_pids and pg_stat_activity tell which"
	}
	return e
}

// describe is the server's error with its condition in front: "UndefinedTable: relation …".
func describe(e *pgconn.PgError) string {
	name, ok := conditions[e.Code]
	if !ok {
		name = e.Code
	}
	return name + ": " + firstLine(e.Message)
}

// conflict reports whether parallel transactions collided, so that all of this one is done again. Two that create the
// same object collide in the catalog.
func conflict(e *pgconn.PgError) bool {
	switch e.Code {
	case serializationFailure, deadlockDetected:
		return true
	case uniqueViolation:
		return e.SchemaName == "pg_catalog"
	}
	return false
}

// retryable: connection trouble, rollbacks by the server, lack of resources, shutdown, a lock not obtained in time.
func retryable(state string) bool {
	switch state[:2] {
	case "08", "40", "53":
		return true
	}
	return state[:3] == "57P" || state == lockNotAvailable
}

// conditions are the names that logs and errors give to SQLSTATEs.
var conditions = map[string]string{
	"08000": "ConnectionException",
	"08003": "ConnectionDoesNotExist",
	"08006": "ConnectionFailure",
	"08P01": "ProtocolViolation",
	"0A000": "FeatureNotSupported",
	"21000": "CardinalityViolation",
	"22000": "DataException",
	"22001": "StringDataRightTruncation",
	"22003": "NumericValueOutOfRange",
	"22004": "NullValueNotAllowed",
	"22007": "InvalidDatetimeFormat",
	"22008": "DatetimeFieldOverflow",
	"22009": "InvalidTimeZoneDisplacementValue",
	"2200H": "SequenceGeneratorLimitExceeded",
	"22012": "DivisionByZero",
	"22015": "IntervalFieldOverflow",
	"2201B": "InvalidRegularExpression",
	"2201E": "InvalidArgumentForLogarithm",
	"2201F": "InvalidArgumentForPowerFunction",
	"2201W": "InvalidRowCountInLimitClause",
	"2201X": "InvalidRowCountInResultOffsetClause",
	"22021": "CharacterNotInRepertoire",
	"22023": "InvalidParameterValue",
	"22025": "InvalidEscapeSequence",
	"2202E": "ArraySubscriptError",
	"22P02": "InvalidTextRepresentation",
	"22P03": "InvalidBinaryRepresentation",
	"22P05": "UntranslatableCharacter",
	"23000": "IntegrityConstraintViolation",
	"23001": "RestrictViolation",
	"23502": "NotNullViolation",
	"23503": "ForeignKeyViolation",
	"23505": "UniqueViolation",
	"23514": "CheckViolation",
	"23P01": "ExclusionViolation",
	"25001": "ActiveSqlTransaction",
	"25006": "ReadOnlySqlTransaction",
	"25P01": "NoActiveSqlTransaction",
	"25P02": "InFailedSqlTransaction",
	"25P03": "IdleInTransactionSessionTimeout",
	"25P04": "TransactionTimeout",
	"28000": "InvalidAuthorizationSpecification",
	"28P01": "InvalidPassword",
	"2BP01": "DependentObjectsStillExist",
	"38000": "ExternalRoutineException",
	"3D000": "InvalidCatalogName",
	"3F000": "InvalidSchemaName",
	"40000": "TransactionRollback",
	"40001": "SerializationFailure",
	"40P01": "DeadlockDetected",
	"42501": "InsufficientPrivilege",
	"42601": "SyntaxError",
	"42602": "InvalidName",
	"42611": "InvalidColumnDefinition",
	"42622": "NameTooLong",
	"42701": "DuplicateColumn",
	"42702": "AmbiguousColumn",
	"42703": "UndefinedColumn",
	"42704": "UndefinedObject",
	"42710": "DuplicateObject",
	"42712": "DuplicateAlias",
	"42723": "DuplicateFunction",
	"42725": "AmbiguousFunction",
	"42803": "GroupingError",
	"42804": "DatatypeMismatch",
	"42809": "WrongObjectType",
	"42830": "InvalidForeignKey",
	"42846": "CannotCoerce",
	"42883": "UndefinedFunction",
	"428C9": "GeneratedAlways",
	"42939": "ReservedName",
	"42P01": "UndefinedTable",
	"42P02": "UndefinedParameter",
	"42P04": "DuplicateDatabase",
	"42P06": "DuplicateSchema",
	"42P07": "DuplicateTable",
	"42P08": "AmbiguousParameter",
	"42P10": "InvalidColumnReference",
	"42P16": "InvalidTableDefinition",
	"42P17": "InvalidObjectDefinition",
	"42P18": "IndeterminateDatatype",
	"42P19": "InvalidRecursion",
	"42P20": "WindowingError",
	"42P21": "CollationMismatch",
	"42P22": "IndeterminateCollation",
	"53000": "InsufficientResources",
	"53100": "DiskFull",
	"53200": "OutOfMemory",
	"53300": "TooManyConnections",
	"53400": "ConfigurationLimitExceeded",
	"54000": "ProgramLimitExceeded",
	"54001": "StatementTooComplex",
	"54011": "TooManyColumns",
	"54023": "TooManyArguments",
	"55000": "ObjectNotInPrerequisiteState",
	"55006": "ObjectInUse",
	"55P03": "LockNotAvailable",
	"57014": "QueryCanceled",
	"57P01": "AdminShutdown",
	"57P02": "CrashShutdown",
	"57P03": "CannotConnectNow",
	"57P04": "DatabaseDropped",
	"57P05": "IdleSessionTimeout",
	"58030": "IoError",
	"58P01": "UndefinedFile",
	"P0001": "RaiseException",
	"P0002": "NoDataFound",
	"P0003": "TooManyRows",
	"P0004": "AssertFailure",
	"XX000": "InternalError",
	"XX001": "DataCorrupted",
	"XX002": "IndexCorrupted",
}
