package engine

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/etl-craft/etl-craft/engine/store"
	"github.com/etl-craft/etl-craft/warehouses"
)

// GrantsDocument is etl-craft/grants/1: statements for an administrator, none of which etl-craft runs.
type GrantsDocument struct {
	Schema    string   `json:"schema"`
	Engine    GrantsOn `json:"engine"`
	Warehouse GrantsOn `json:"warehouse"`
}

// GrantsOn are the roles that one database needs.
type GrantsOn struct {
	Where string        `json:"where"`
	Roles []GrantedRole `json:"roles"`
	Notes []string      `json:"notes"`
}

// GrantedRole is a role with the statements that make it.
type GrantedRole struct {
	Role       string   `json:"role"`
	For        string   `json:"for"`
	Statements []string `json:"statements"` // without the semicolon
}

// Grants proposes roles with no more privileges than their work needs. The Store may be one that is not migrated yet; then
// nothing is known of the tables that tasks read and write.
func (e *Engine) Grants(ctx context.Context) (*GrantsDocument, error) {
	doc := &GrantsDocument{Schema: "etl-craft/grants/1", Engine: GrantsOn{Where: e.Store.Backend().Where, Roles: []GrantedRole{}, Notes: []string{}},
		Warehouse: GrantsOn{Where: e.Dialect.Product, Roles: []GrantedRole{}, Notes: []string{}}}
	roles, err := e.Store.Roles(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range roles {
		doc.Engine.Roles = append(doc.Engine.Roles, GrantedRole{r.Name, r.For, r.Statements})
	}
	if len(roles) == 0 {
		doc.Engine.Notes = append(doc.Engine.Notes, "there are no roles in a SQLite file: whoever may write the file and its folder may do everything, so chmod 600 the file and 700 the folder of its locks")
	} else {
		doc.Engine.Notes = append(doc.Engine.Notes, "the last three roles are made after the first etl-craft migrate, which makes the tables",
			"after an etl-craft migrate that makes new tables, print and run this again")
	}
	var graphs []*store.Graph
	if e.Store.CheckVersion(ctx) == nil {
		if graphs, err = e.Store.Graphs(ctx); err != nil {
			return nil, err
		}
	}
	e.loadRole(graphs, &doc.Warehouse)
	return doc, nil
}

// loadRole is the role that runs tasks in the warehouse.
func (e *Engine) loadRole(graphs []*store.Graph, on *GrantsOn) {
	env := e.env()
	if !e.Dialect.Privileges {
		on.Notes = append(on.Notes, "there are no roles in a "+e.Dialect.Product+" file: whoever may write the file and its folder may do everything, so chmod 600 the file")
		return
	}
	on.Where += ", database " + env.Database
	schema := e.Config.Engine.Schema
	if schema == "" {
		schema = "etl_craft"
	}
	role := schema + "_load"
	wish := warehouses.LoadRole{Role: e.Dialect.Ident(role), Database: e.Dialect.Ident(env.Database), MakesSchemas: e.Config.Warehouse.CreateSchemas}
	targets, sources := map[string]bool{}, map[string]bool{}
	traced := e.trace(env, graphs)
	for _, key := range slices.Sorted(maps.Keys(traced.tables)) {
		parts := strings.Split(key, "\x00")
		if len(parts) != 2 {
			continue // in another database, which a connection cannot reach
		}
		if len(traced.tables[key].writers) > 0 {
			targets[parts[0]] = true
			continue
		}
		sources[parts[0]] = true
		wish.Reads = append(wish.Reads, e.Dialect.Table(warehouses.QualifiedName{Schema: parts[0], Table: parts[1]}))
	}
	for _, s := range slices.Sorted(maps.Keys(targets)) {
		wish.Targets = append(wish.Targets, e.Dialect.Ident(s))
	}
	for _, s := range slices.Sorted(maps.Keys(sources)) {
		if !targets[s] {
			wish.Sources = append(wish.Sources, e.Dialect.Ident(s))
		}
	}
	statements := strings.Split(strings.TrimSuffix(string(e.Dialect.Render("grants", wish)), ";"), ";\n")
	on.Roles = append(on.Roles, GrantedRole{role, "tasks, and plan and validate --connect", statements})
	on.Notes = append(on.Notes,
		"targets that exist already have to belong to the role: ALTER TABLE schema.table OWNER TO "+string(wish.Role),
		"what the SELECTs call and read besides tables, such as functions and the tables behind views of others, is not looked at")
	for _, t := range traced.tasks {
		for _, unknown := range t.Unknown {
			on.Notes = append(on.Notes, "not looked at: "+t.PipelineCode+"."+t.Code+": "+unknown)
		}
	}
}
