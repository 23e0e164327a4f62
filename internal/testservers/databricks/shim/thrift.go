package main

// A reader and writer of Thrift's binary protocol that knows no schema: messages become trees of plain Go values, so that single
// fields can be read, added or replaced without generated code. Fields that nobody touches pass unchanged.

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// The types of values, and the kinds of messages, as they are written.
const (
	tBool, tByte, tDouble, tI16, tI32, tI64 byte = 2, 3, 4, 6, 8, 10
	tString, tStruct, tMap, tSet, tList     byte = 11, 12, 13, 14, 15
	msgCall, msgReply                       byte = 1, 2
	binaryVersion, versionMask                   = 0x80010000, 0xffff0000
	longest                                      = 1 << 30 // bytes of a string, and values of a list
)

type field struct {
	id int16
	t  byte
	v  any
}

// tree is a struct. Its values are bool, int8, int16, int32, int64, uint64 (the bits of a double), []byte (text and binary),
// *tree, *list and *dict.
type tree struct{ fields []field }

type list struct {
	t, of  byte // t is tList or tSet
	values []any
}

type dict struct {
	keys, values byte
	entries      [][2]any
}

type message struct {
	kind byte
	name string
	seq  int32
	body *tree
}

// st is a struct with one field; set adds more.
func st(t byte, id int16, v any) *tree { return (&tree{}).set(t, id, v) }

// get follows ids through structs, to nil where one is missing.
func (s *tree) get(path ...int16) any {
	var v any = s
	for _, id := range path {
		t, ok := v.(*tree)
		if !ok || t == nil {
			return nil
		}
		v = nil
		for _, f := range t.fields {
			if f.id == id {
				v = f.v
			}
		}
	}
	return v
}

func (s *tree) sub(path ...int16) *tree   { t, _ := s.get(path...).(*tree); return t }
func (s *tree) list(path ...int16) *list  { l, _ := s.get(path...).(*list); return l }
func (s *tree) i32(path ...int16) int32   { n, _ := s.get(path...).(int32); return n }
func (s *tree) i64(path ...int16) int64   { n, _ := s.get(path...).(int64); return n }
func (s *tree) text(path ...int16) string { b, _ := s.get(path...).([]byte); return string(b) }
func (s *tree) has(path ...int16) bool    { return s.get(path...) != nil }

func (s *tree) set(t byte, id int16, v any) *tree {
	for i := range s.fields {
		if s.fields[i].id == id {
			s.fields[i] = field{id, t, v}
			return s
		}
	}
	s.fields = append(s.fields, field{id, t, v})
	return s
}

func (s *tree) setText(id int16, v string) *tree  { return s.set(tString, id, []byte(v)) }
func (s *tree) setStruct(id int16, v *tree) *tree { return s.set(tStruct, id, v) }

func (s *tree) drop(ids ...int16) {
	kept := s.fields[:0]
next:
	for _, f := range s.fields {
		for _, id := range ids {
			if f.id == id {
				continue next
			}
		}
		kept = append(kept, f)
	}
	s.fields = kept
}

// decoder panics with an error; readMessage returns it.
type decoder struct{ r *bufio.Reader }

func (d decoder) bytes(n int) []byte {
	if n < 0 || n > longest {
		panic(fmt.Errorf("a length of %d", n))
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(d.r, b); err != nil {
		panic(err)
	}
	return b
}

func (d decoder) byte() byte  { return d.bytes(1)[0] }
func (d decoder) i16() int16  { return int16(binary.BigEndian.Uint16(d.bytes(2))) }
func (d decoder) i32() int32  { return int32(binary.BigEndian.Uint32(d.bytes(4))) }
func (d decoder) u64() uint64 { return binary.BigEndian.Uint64(d.bytes(8)) }

func (d decoder) count() int {
	n := int(d.i32())
	if n < 0 || n > longest {
		panic(fmt.Errorf("a count of %d", n))
	}
	return n
}

func (d decoder) value(t byte) any {
	switch t {
	case tBool:
		return d.byte() != 0
	case tByte:
		return int8(d.byte())
	case tDouble:
		return d.u64()
	case tI16:
		return d.i16()
	case tI32:
		return d.i32()
	case tI64:
		return int64(d.u64())
	case tString:
		return d.bytes(int(d.i32()))
	case tStruct:
		s := &tree{}
		for {
			ft := d.byte()
			if ft == 0 {
				return s
			}
			id := d.i16()
			s.fields = append(s.fields, field{id, ft, d.value(ft)})
		}
	case tList, tSet:
		l := &list{t: t, of: d.byte()}
		for range d.count() {
			l.values = append(l.values, d.value(l.of))
		}
		return l
	case tMap:
		m := &dict{keys: d.byte(), values: d.byte()}
		for range d.count() {
			k := d.value(m.keys)
			m.entries = append(m.entries, [2]any{k, d.value(m.values)})
		}
		return m
	}
	panic(fmt.Errorf("a value of the unknown type %d", t))
}

func readMessage(r *bufio.Reader) (m *message, err error) {
	defer func() {
		if p := recover(); p != nil {
			cause, ok := p.(error)
			if !ok {
				panic(p)
			}
			m, err = nil, fmt.Errorf("thrift: %w", cause)
		}
	}()
	d := decoder{r}
	version := uint32(d.i32())
	if version&versionMask != binaryVersion {
		return nil, fmt.Errorf("thrift: no message of the strict binary protocol (%#x)", version)
	}
	m = &message{kind: byte(version)}
	m.name = string(d.bytes(int(d.i32())))
	m.seq = d.i32()
	m.body = d.value(tStruct).(*tree)
	return m, nil
}

func appendValue(b []byte, v any) []byte {
	order := binary.BigEndian
	switch x := v.(type) {
	case bool:
		if x {
			return append(b, 1)
		}
		return append(b, 0)
	case int8:
		return append(b, byte(x))
	case uint64:
		return order.AppendUint64(b, x)
	case int16:
		return order.AppendUint16(b, uint16(x))
	case int32:
		return order.AppendUint32(b, uint32(x))
	case int64:
		return order.AppendUint64(b, uint64(x))
	case []byte:
		return append(order.AppendUint32(b, uint32(len(x))), x...)
	case *tree:
		for _, f := range x.fields {
			b = order.AppendUint16(append(b, f.t), uint16(f.id))
			b = appendValue(b, f.v)
		}
		return append(b, 0)
	case *list:
		b = order.AppendUint32(append(b, x.of), uint32(len(x.values)))
		for _, e := range x.values {
			b = appendValue(b, e)
		}
		return b
	case *dict:
		b = order.AppendUint32(append(b, x.keys, x.values), uint32(len(x.entries)))
		for _, e := range x.entries {
			b = appendValue(appendValue(b, e[0]), e[1])
		}
		return b
	}
	panic(fmt.Sprintf("thrift: a %T cannot be written", v))
}

func (m *message) encode() []byte {
	order := binary.BigEndian
	b := order.AppendUint32(nil, binaryVersion|uint32(m.kind))
	b = append(order.AppendUint32(b, uint32(len(m.name))), m.name...)
	b = order.AppendUint32(b, uint32(m.seq))
	return appendValue(b, m.body)
}
