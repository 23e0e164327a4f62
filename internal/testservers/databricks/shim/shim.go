package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	protocolAsked = int32(9)      // of Spark: results come in columns from 5 on
	protocolTold  = int32(0xA508) // to the driver: which then asks for direct results and sends parameters

	finished      = int32(2) // TOperationState, as is:
	failed        = int32(5)
	successStatus = int32(0) // TStatusCode
	errorStatus   = int32(3)
	fetchNext     = int32(0) // TFetchOrientation, as is:
	fetchFirst    = int32(4)
)

type shim struct {
	upstream   *upstream
	token      string
	direct     time.Duration
	trace      bool
	operations sync.Map // GUID -> *operation: those that still ran when ExecuteStatement was answered
	sessions   sessions
}

// sessions keeps those that drivers have closed for the next that asks for the same: to end one, Spark starts a metastore, for
// half a minute.
type sessions struct {
	mu     sync.Mutex
	opened map[string]*session   // by GUID
	closed map[string][]*session // by the statements that made them what they are
}

type session struct {
	made   string
	answer *tree // of OpenSession
}

func (s *sessions) keep(made string, answer *tree) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened == nil {
		s.opened, s.closed = map[string]*session{}, map[string][]*session{}
	}
	s.opened[answer.text(3, 1, 1)] = &session{made, answer}
}

// again is the answer of a session that was closed, nil when there is none.
func (s *sessions) again(made string) *tree {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := s.closed[made]
	if len(waiting) == 0 {
		return nil
	}
	last := waiting[len(waiting)-1]
	s.closed[made] = waiting[:len(waiting)-1]
	s.opened[last.answer.text(3, 1, 1)] = last
	return last.answer
}

func (s *sessions) close(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.opened[id]; known != nil {
		s.closed[known.made] = append(s.closed[known.made], known)
		delete(s.opened, id)
	}
}

// reply answers a call with a struct.
func (m *message) reply(answer *tree) *message {
	return &message{kind: msgReply, name: m.name, seq: m.seq, body: st(tStruct, 0, answer)}
}

// operation is what the shim keeps of a statement that the driver asks after.
type operation struct {
	session *tree
	insert  string // the table that it inserts into, if it does
	rewind  bool   // the shim has read the result's first row
}

// handle carries out one call of the driver.
func (s *shim) handle(ctx context.Context, m *message) (*message, error) {
	request := m.body.sub(1)
	if request == nil {
		return nil, fmt.Errorf("%s has no request", m.name)
	}
	switch m.name {
	case "OpenSession":
		return s.openSession(ctx, m, request)
	case "ExecuteStatement":
		return s.execute(ctx, m, request)
	case "FetchResults":
		return s.fetch(ctx, m, request)
	case "CloseSession":
		s.sessions.close(request.text(1, 1, 1))
		return m.reply(st(tStruct, 1, st(tI32, 1, successStatus))), nil
	}
	out, answer, err := s.forward(ctx, m)
	if answer == nil {
		return out, err
	}
	switch id := request.text(1, 1, 1); m.name {
	case "GetOperationStatus":
		readable(answer)
		if op, ok := s.operations.Load(id); ok && answer.i32(2) == finished {
			s.countPolled(ctx, request.sub(1), op.(*operation), answer)
		}
	case "CloseOperation":
		s.operations.Delete(id)
	}
	return out, nil
}

// forward sends a message as it is. Its answer's struct is nil when there is none.
func (s *shim) forward(ctx context.Context, m *message) (out *message, answer *tree, err error) {
	if out, err = s.upstream.send(ctx, m); err != nil {
		return nil, nil, err
	}
	if out.kind == msgReply {
		answer = out.body.sub(0)
	}
	return out, answer, nil
}

// openSession carries out as statements what Databricks takes with the session: parameters, catalog and schema.
func (s *shim) openSession(ctx context.Context, m *message, request *tree) (*message, error) {
	statements := sessionStatements(request)
	made := strings.Join(statements, "\n")
	if answer := s.sessions.again(made); answer != nil {
		return m.reply(answer), nil
	}
	request.set(tI32, 1, protocolAsked)
	request.drop(4, 1281, 1282, 1283, 1284, 1285)
	out, answer, err := s.forward(ctx, m)
	if answer == nil {
		return out, err
	}
	answer.set(tI32, 2, protocolTold)
	session := answer.sub(3)
	for _, statement := range statements {
		if session == nil {
			break
		}
		if _, _, err := s.query(ctx, session, statement, 1); err != nil {
			_, _ = s.upstream.call(context.WithoutCancel(ctx), "CloseSession", st(tStruct, 1, session))
			answer.setStruct(1, st(tI32, 1, errorStatus).setText(5, err.Error()))
			answer.drop(3)
			session = nil
			break
		}
	}
	if session != nil {
		s.sessions.keep(made, answer)
	}
	return out, nil
}

func sessionStatements(request *tree) (statements []string) {
	if parameters, ok := request.get(4).(*dict); ok {
		for _, e := range parameters.entries {
			name, value := string(e[0].([]byte)), string(e[1].([]byte))
			switch strings.ToLower(name) {
			case "timezone":
				name = "spark.sql.session.timeZone"
			case "ansi_mode":
				name = "spark.sql.ansi.enabled"
			}
			statements = append(statements, "SET "+identifier(name)+"="+identifier(value))
		}
	}
	catalog, schema := request.text(1284, 1), request.text(1284, 2)
	switch {
	case catalog != "" && schema != "":
		return append(statements, "USE "+identifier(catalog)+"."+identifier(schema))
	case catalog != "":
		return append(statements, "SET CATALOG "+identifier(catalog))
	case schema != "":
		return append(statements, "USE "+identifier(schema))
	}
	return statements
}

// execute binds parameters, and answers with the result where the driver asks for it and the statement is quick enough.
func (s *shim) execute(ctx context.Context, m *message, request *tree) (*message, error) {
	session := request.sub(1)
	sql := rewrite(request.text(2))
	request.setText(2, sql)
	if parameters := request.list(1288); parameters != nil {
		request.setText(2, bind(sql, parameters))
	}
	direct, most := request.has(1281), request.i64(1281, 1)
	request.drop(1281, 1282, 1283, 1284, 1285, 1286, 1287, 1288, 1289, 1296)
	out, answer, err := s.forward(ctx, m)
	if answer == nil {
		return out, err
	}
	readableStatus(answer.sub(1))
	handle := answer.sub(2)
	if !direct || handle == nil {
		return out, nil
	}
	result, err := s.result(ctx, handle, most)
	if err != nil {
		return nil, err
	}
	insert := inserts(sql)
	switch state := result.i32(1, 2); {
	case state < finished:
		s.operations.Store(handle.text(1, 1), &operation{session: session, insert: insert})
	case state == finished && insert != "":
		s.countInserted(ctx, session, insert, result)
	}
	answer.setStruct(1281, result)
	return out, nil
}

func (s *shim) fetch(ctx context.Context, m *message, request *tree) (*message, error) {
	most := request.i64(3)
	if op, ok := s.operations.Load(request.text(1, 1, 1)); ok && op.(*operation).rewind {
		request.set(tI32, 2, fetchFirst)
		op.(*operation).rewind = false
	}
	request.drop(1281, 1282, 1283)
	out, answer, err := s.forward(ctx, m)
	if answer == nil {
		return out, err
	}
	readableStatus(answer.sub(1))
	sayWhetherMore(answer, most)
	return out, nil
}

// result waits for an operation and is its TSparkDirectResults: the state and, where it has finished in time, the columns and the
// first page. It closes the operation when that is all.
func (s *shim) result(ctx context.Context, handle *tree, most int64) (*tree, error) {
	byHandle := func() *tree { return st(tStruct, 1, handle) }
	result := &tree{}
	for deadline := time.Now().Add(s.direct); ; {
		status, err := s.upstream.call(ctx, "GetOperationStatus", byHandle())
		if err != nil {
			if ctx.Err() != nil { // the driver has gone: the statement has to stop
				c, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
				defer cancel()
				_, _ = s.upstream.call(c, "CancelOperation", byHandle())
			}
			return nil, err
		}
		state := status.i32(2)
		if state < finished && time.Now().Before(deadline) {
			continue // Spark answers late while the state stays the same
		}
		readable(status)
		result.setStruct(1, status)
		if state < finished {
			return result, nil
		}
		if state > finished { // it failed, and the driver does not close it
			return result, s.closeOperation(ctx, handle, result)
		}
		break
	}
	columns, err := s.upstream.call(ctx, "GetResultSetMetadata", byHandle())
	if err != nil {
		return nil, err
	}
	page, err := s.upstream.call(ctx, "FetchResults", byHandle().set(tI32, 2, fetchNext).set(tI64, 3, most))
	if err != nil {
		return nil, err
	}
	readableStatus(page.sub(1))
	sayWhetherMore(page, most)
	result.setStruct(2, columns)
	result.setStruct(3, page)
	if n, ok := affected(columns, page); ok {
		result.sub(1).set(tI64, 11, n)
	}
	if more, _ := page.get(2).(bool); !more {
		return result, s.closeOperation(ctx, handle, result)
	}
	return result, nil
}

// closeOperation closes an operation, and says so in its result.
func (s *shim) closeOperation(ctx context.Context, handle, result *tree) error {
	closed, err := s.upstream.call(ctx, "CloseOperation", st(tStruct, 1, handle))
	if err == nil {
		result.setStruct(4, closed)
	}
	return err
}

// query runs a statement of the shim's own, which has up to n rows.
func (s *shim) query(ctx context.Context, session *tree, sql string, n int64) (columns, page *tree, err error) {
	request := st(tStruct, 1, session).setText(2, sql).set(tBool, 4, false)
	answer, err := s.upstream.call(ctx, "ExecuteStatement", request)
	if err != nil {
		return nil, nil, err
	}
	handle := answer.sub(2)
	if handle == nil {
		return nil, nil, errors.New(plainMessage(answer.text(1, 5)))
	}
	result, err := s.result(ctx, handle, n+1) // a page that is not full is the last, and closes the operation
	if err != nil {
		return nil, nil, err
	}
	if result.i32(1, 2) != finished {
		return nil, nil, errors.New(result.text(1, 1281))
	}
	return result.sub(2), result.sub(3), nil
}

var outputRows = regexp.MustCompile(`"numOutputRows":"(\d+)"`)

// countInserted gives the result of an INSERT the counts that Databricks reports and Delta only keeps in the table's history.
func (s *shim) countInserted(ctx context.Context, session *tree, table string, result *tree) {
	_, page, err := s.query(ctx, session, "SET spark.databricks.delta.lastCommitVersionInSession", 1)
	if err != nil || rows(page) != 1 {
		return
	}
	version := cell(page, 1, 0)
	_, page, err = s.query(ctx, session, "DESCRIBE HISTORY "+table+" LIMIT 10", 10)
	if err != nil {
		return
	}
	for i := range rows(page) {
		metrics := outputRows.FindStringSubmatch(cell(page, 12, i))
		if metrics == nil || cell(page, 0, i) != version {
			continue
		}
		n, err := strconv.ParseInt(metrics[1], 10, 64)
		if err != nil {
			return
		}
		result.sub(1).set(tI64, 11, n)
		result.setStruct(2, countColumns())
		result.setStruct(3, countPage(n))
		return
	}
}

// countPolled puts the affected rows of a finished statement into its status.
func (s *shim) countPolled(ctx context.Context, handle *tree, op *operation, status *tree) {
	if op.insert != "" {
		s.countInserted(ctx, op.session, op.insert, st(tStruct, 1, status))
		return
	}
	columns, err := s.upstream.call(ctx, "GetResultSetMetadata", st(tStruct, 1, handle))
	if err != nil || firstColumn(columns) != affectedColumn {
		return
	}
	page, err := s.upstream.call(ctx, "FetchResults", st(tStruct, 1, handle).set(tI32, 2, fetchFirst).set(tI64, 3, int64(1)))
	if err != nil {
		return
	}
	op.rewind = true
	if n, ok := affected(columns, page); ok {
		status.set(tI64, 11, n)
	}
}

// readable gives a failed operation the text that the driver reports.
func readable(status *tree) {
	readableStatus(status.sub(1))
	if status.i32(2) == failed {
		full := status.text(5)
		status.setText(1281, plainMessage(full)).setText(1282, full)
	}
}

func readableStatus(status *tree) {
	if status.has(5) {
		status.setText(5, plainMessage(status.text(5)))
		status.drop(2) // the stack trace
	}
}
