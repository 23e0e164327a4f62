-- What CFG_ rows get by themselves: the stamps (who, when, from which file) and DEPENDS_ON_PIPELINE_ID; and the record of
-- every change in AUD_METADATA_CHANGES. SQLite's triggers cannot set columns of the row that is being inserted, so they
-- update it; a row is new as long as CREATED_BY is ''.

-- +goose Up

CREATE VIEW ENGINE_ACTOR AS
SELECT COALESCE(s.ACTOR, 'outside etl-craft') AS ACTOR, COALESCE(s.ACTOR_KIND, 'HUMAN') AS ACTOR_KIND, s.ORIGIN
FROM (SELECT 1) LEFT JOIN ENGINE_SESSION s ON 1 = 1;

CREATE VIEW ENGINE_TASK_NAMES AS
SELECT t.TASK_ID, p.PIPELINE_CODE || '.' || t.TASK_CODE AS TASK_NAME
FROM CFG_TASKS t JOIN CFG_PIPELINES p ON p.PIPELINE_ID = t.PIPELINE_ID;

-- +goose StatementBegin
CREATE TRIGGER TR_CFG_PIPELINES_INSERT
AFTER INSERT ON CFG_PIPELINES
BEGIN
    UPDATE CFG_PIPELINES
    SET CREATED_BY = COALESCE(NULLIF(CREATED_BY, ''), (SELECT ACTOR FROM ENGINE_ACTOR)),
        UPDATED_BY = COALESCE(NULLIF(UPDATED_BY, ''), (SELECT ACTOR FROM ENGINE_ACTOR)),
        ORIGIN = COALESCE(ORIGIN, (SELECT ORIGIN FROM ENGINE_ACTOR))
    WHERE PIPELINE_ID = NEW.PIPELINE_ID;
    INSERT INTO AUD_METADATA_CHANGES (
        ACTOR, ACTOR_KIND, ORIGIN, PIPELINE_ID, TABLE_NAME, ROW_KEY, OPERATION, BEFORE_JSON, AFTER_JSON)
    SELECT
        a.ACTOR,
        a.ACTOR_KIND,
        a.ORIGIN,
        NEW.PIPELINE_ID,
        'CFG_PIPELINES',
        NEW.PIPELINE_CODE,
        'INSERT',
        NULL,
        json_object(
            'pipeline_id', r.PIPELINE_ID, 'pipeline_code', r.PIPELINE_CODE, 'pipeline_name', r.PIPELINE_NAME,
            'description', r.DESCRIPTION, 'run_schedule', r.RUN_SCHEDULE, 'schedule_timezone', r.SCHEDULE_TIMEZONE,
            'schedule_start_date', r.SCHEDULE_START_DATE, 'catchup', r.CATCHUP,
            'max_catchup_runs', r.MAX_CATCHUP_RUNS, 'overlap_policy', r.OVERLAP_POLICY,
            'sla_in_hours', r.SLA_IN_HOURS, 'refresh_type', r.REFRESH_TYPE,
            'pipeline_parameters', json(r.PIPELINE_PARAMETERS), 'active_flag', r.ACTIVE_FLAG, 'origin', r.ORIGIN,
            'created_by', r.CREATED_BY, 'create_date', r.CREATE_DATE, 'updated_by', r.UPDATED_BY,
            'updated_date', r.UPDATED_DATE)
    FROM ENGINE_ACTOR a JOIN CFG_PIPELINES r ON r.PIPELINE_ID = NEW.PIPELINE_ID;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER TR_CFG_PIPELINES_UPDATE
AFTER UPDATE ON CFG_PIPELINES
WHEN OLD.CREATED_BY <> '' AND (
    NEW.PIPELINE_ID IS NOT OLD.PIPELINE_ID
    OR NEW.PIPELINE_CODE IS NOT OLD.PIPELINE_CODE
    OR NEW.PIPELINE_NAME IS NOT OLD.PIPELINE_NAME
    OR NEW.DESCRIPTION IS NOT OLD.DESCRIPTION
    OR NEW.RUN_SCHEDULE IS NOT OLD.RUN_SCHEDULE
    OR NEW.SCHEDULE_TIMEZONE IS NOT OLD.SCHEDULE_TIMEZONE
    OR NEW.SCHEDULE_START_DATE IS NOT OLD.SCHEDULE_START_DATE
    OR NEW.CATCHUP IS NOT OLD.CATCHUP
    OR NEW.MAX_CATCHUP_RUNS IS NOT OLD.MAX_CATCHUP_RUNS
    OR NEW.OVERLAP_POLICY IS NOT OLD.OVERLAP_POLICY
    OR NEW.SLA_IN_HOURS IS NOT OLD.SLA_IN_HOURS
    OR NEW.REFRESH_TYPE IS NOT OLD.REFRESH_TYPE
    OR NEW.PIPELINE_PARAMETERS IS NOT OLD.PIPELINE_PARAMETERS
    OR NEW.ACTIVE_FLAG IS NOT OLD.ACTIVE_FLAG
    OR NEW.ORIGIN IS NOT OLD.ORIGIN
    OR NEW.CREATED_BY IS NOT OLD.CREATED_BY
    OR NEW.CREATE_DATE IS NOT OLD.CREATE_DATE)
BEGIN
    UPDATE CFG_PIPELINES
    SET CREATED_BY = OLD.CREATED_BY,
        CREATE_DATE = OLD.CREATE_DATE,
        UPDATED_BY = (SELECT ACTOR FROM ENGINE_ACTOR),
        UPDATED_DATE = strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z'
    WHERE PIPELINE_ID = NEW.PIPELINE_ID;
    INSERT INTO AUD_METADATA_CHANGES (
        ACTOR, ACTOR_KIND, ORIGIN, PIPELINE_ID, TABLE_NAME, ROW_KEY, OPERATION, BEFORE_JSON, AFTER_JSON)
    SELECT
        a.ACTOR,
        a.ACTOR_KIND,
        a.ORIGIN,
        NEW.PIPELINE_ID,
        'CFG_PIPELINES',
        NEW.PIPELINE_CODE,
        'UPDATE',
        json_object(
            'pipeline_id', OLD.PIPELINE_ID, 'pipeline_code', OLD.PIPELINE_CODE, 'pipeline_name', OLD.PIPELINE_NAME,
            'description', OLD.DESCRIPTION, 'run_schedule', OLD.RUN_SCHEDULE,
            'schedule_timezone', OLD.SCHEDULE_TIMEZONE, 'schedule_start_date', OLD.SCHEDULE_START_DATE,
            'catchup', OLD.CATCHUP, 'max_catchup_runs', OLD.MAX_CATCHUP_RUNS, 'overlap_policy', OLD.OVERLAP_POLICY,
            'sla_in_hours', OLD.SLA_IN_HOURS, 'refresh_type', OLD.REFRESH_TYPE,
            'pipeline_parameters', json(OLD.PIPELINE_PARAMETERS), 'active_flag', OLD.ACTIVE_FLAG,
            'origin', OLD.ORIGIN, 'created_by', OLD.CREATED_BY, 'create_date', OLD.CREATE_DATE,
            'updated_by', OLD.UPDATED_BY, 'updated_date', OLD.UPDATED_DATE),
        json_object(
            'pipeline_id', r.PIPELINE_ID, 'pipeline_code', r.PIPELINE_CODE, 'pipeline_name', r.PIPELINE_NAME,
            'description', r.DESCRIPTION, 'run_schedule', r.RUN_SCHEDULE, 'schedule_timezone', r.SCHEDULE_TIMEZONE,
            'schedule_start_date', r.SCHEDULE_START_DATE, 'catchup', r.CATCHUP,
            'max_catchup_runs', r.MAX_CATCHUP_RUNS, 'overlap_policy', r.OVERLAP_POLICY,
            'sla_in_hours', r.SLA_IN_HOURS, 'refresh_type', r.REFRESH_TYPE,
            'pipeline_parameters', json(r.PIPELINE_PARAMETERS), 'active_flag', r.ACTIVE_FLAG, 'origin', r.ORIGIN,
            'created_by', r.CREATED_BY, 'create_date', r.CREATE_DATE, 'updated_by', r.UPDATED_BY,
            'updated_date', r.UPDATED_DATE)
    FROM ENGINE_ACTOR a JOIN CFG_PIPELINES r ON r.PIPELINE_ID = NEW.PIPELINE_ID;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER TR_CFG_PIPELINES_DELETE
AFTER DELETE ON CFG_PIPELINES
BEGIN
    INSERT INTO AUD_METADATA_CHANGES (
        ACTOR, ACTOR_KIND, ORIGIN, PIPELINE_ID, TABLE_NAME, ROW_KEY, OPERATION, BEFORE_JSON, AFTER_JSON)
    SELECT
        a.ACTOR,
        a.ACTOR_KIND,
        a.ORIGIN,
        OLD.PIPELINE_ID,
        'CFG_PIPELINES',
        OLD.PIPELINE_CODE,
        'DELETE',
        json_object(
            'pipeline_id', OLD.PIPELINE_ID, 'pipeline_code', OLD.PIPELINE_CODE, 'pipeline_name', OLD.PIPELINE_NAME,
            'description', OLD.DESCRIPTION, 'run_schedule', OLD.RUN_SCHEDULE,
            'schedule_timezone', OLD.SCHEDULE_TIMEZONE, 'schedule_start_date', OLD.SCHEDULE_START_DATE,
            'catchup', OLD.CATCHUP, 'max_catchup_runs', OLD.MAX_CATCHUP_RUNS, 'overlap_policy', OLD.OVERLAP_POLICY,
            'sla_in_hours', OLD.SLA_IN_HOURS, 'refresh_type', OLD.REFRESH_TYPE,
            'pipeline_parameters', json(OLD.PIPELINE_PARAMETERS), 'active_flag', OLD.ACTIVE_FLAG,
            'origin', OLD.ORIGIN, 'created_by', OLD.CREATED_BY, 'create_date', OLD.CREATE_DATE,
            'updated_by', OLD.UPDATED_BY, 'updated_date', OLD.UPDATED_DATE),
        NULL
    FROM ENGINE_ACTOR a;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER TR_CFG_TASKS_INSERT
AFTER INSERT ON CFG_TASKS
BEGIN
    UPDATE CFG_TASKS
    SET CREATED_BY = COALESCE(NULLIF(CREATED_BY, ''), (SELECT ACTOR FROM ENGINE_ACTOR)),
        UPDATED_BY = COALESCE(NULLIF(UPDATED_BY, ''), (SELECT ACTOR FROM ENGINE_ACTOR)),
        ORIGIN = COALESCE(ORIGIN, (SELECT ORIGIN FROM ENGINE_ACTOR))
    WHERE TASK_ID = NEW.TASK_ID;
    INSERT INTO AUD_METADATA_CHANGES (
        ACTOR, ACTOR_KIND, ORIGIN, PIPELINE_ID, TABLE_NAME, ROW_KEY, OPERATION, BEFORE_JSON, AFTER_JSON)
    SELECT
        a.ACTOR,
        a.ACTOR_KIND,
        a.ORIGIN,
        NEW.PIPELINE_ID,
        'CFG_TASKS',
        (SELECT PIPELINE_CODE FROM CFG_PIPELINES WHERE PIPELINE_ID = NEW.PIPELINE_ID) || '.' || NEW.TASK_CODE,
        'INSERT',
        NULL,
        json_object(
            'task_id', r.TASK_ID, 'task_code', r.TASK_CODE, 'task_type', r.TASK_TYPE, 'pipeline_id', r.PIPELINE_ID,
            'handler', r.HANDLER, 'run_condition', r.RUN_CONDITION, 'run_condition_count', r.RUN_CONDITION_COUNT,
            'active_flag', r.ACTIVE_FLAG, 'origin', r.ORIGIN, 'created_by', r.CREATED_BY,
            'create_date', r.CREATE_DATE, 'updated_by', r.UPDATED_BY, 'updated_date', r.UPDATED_DATE)
    FROM ENGINE_ACTOR a JOIN CFG_TASKS r ON r.TASK_ID = NEW.TASK_ID;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER TR_CFG_TASKS_UPDATE
AFTER UPDATE ON CFG_TASKS
WHEN OLD.CREATED_BY <> '' AND (
    NEW.TASK_ID IS NOT OLD.TASK_ID
    OR NEW.TASK_CODE IS NOT OLD.TASK_CODE
    OR NEW.TASK_TYPE IS NOT OLD.TASK_TYPE
    OR NEW.PIPELINE_ID IS NOT OLD.PIPELINE_ID
    OR NEW.HANDLER IS NOT OLD.HANDLER
    OR NEW.RUN_CONDITION IS NOT OLD.RUN_CONDITION
    OR NEW.RUN_CONDITION_COUNT IS NOT OLD.RUN_CONDITION_COUNT
    OR NEW.ACTIVE_FLAG IS NOT OLD.ACTIVE_FLAG
    OR NEW.ORIGIN IS NOT OLD.ORIGIN
    OR NEW.CREATED_BY IS NOT OLD.CREATED_BY
    OR NEW.CREATE_DATE IS NOT OLD.CREATE_DATE)
BEGIN
    UPDATE CFG_TASKS
    SET CREATED_BY = OLD.CREATED_BY,
        CREATE_DATE = OLD.CREATE_DATE,
        UPDATED_BY = (SELECT ACTOR FROM ENGINE_ACTOR),
        UPDATED_DATE = strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z'
    WHERE TASK_ID = NEW.TASK_ID;
    INSERT INTO AUD_METADATA_CHANGES (
        ACTOR, ACTOR_KIND, ORIGIN, PIPELINE_ID, TABLE_NAME, ROW_KEY, OPERATION, BEFORE_JSON, AFTER_JSON)
    SELECT
        a.ACTOR,
        a.ACTOR_KIND,
        a.ORIGIN,
        NEW.PIPELINE_ID,
        'CFG_TASKS',
        (SELECT PIPELINE_CODE FROM CFG_PIPELINES WHERE PIPELINE_ID = NEW.PIPELINE_ID) || '.' || NEW.TASK_CODE,
        'UPDATE',
        json_object(
            'task_id', OLD.TASK_ID, 'task_code', OLD.TASK_CODE, 'task_type', OLD.TASK_TYPE,
            'pipeline_id', OLD.PIPELINE_ID, 'handler', OLD.HANDLER, 'run_condition', OLD.RUN_CONDITION,
            'run_condition_count', OLD.RUN_CONDITION_COUNT, 'active_flag', OLD.ACTIVE_FLAG, 'origin', OLD.ORIGIN,
            'created_by', OLD.CREATED_BY, 'create_date', OLD.CREATE_DATE, 'updated_by', OLD.UPDATED_BY,
            'updated_date', OLD.UPDATED_DATE),
        json_object(
            'task_id', r.TASK_ID, 'task_code', r.TASK_CODE, 'task_type', r.TASK_TYPE, 'pipeline_id', r.PIPELINE_ID,
            'handler', r.HANDLER, 'run_condition', r.RUN_CONDITION, 'run_condition_count', r.RUN_CONDITION_COUNT,
            'active_flag', r.ACTIVE_FLAG, 'origin', r.ORIGIN, 'created_by', r.CREATED_BY,
            'create_date', r.CREATE_DATE, 'updated_by', r.UPDATED_BY, 'updated_date', r.UPDATED_DATE)
    FROM ENGINE_ACTOR a JOIN CFG_TASKS r ON r.TASK_ID = NEW.TASK_ID;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER TR_CFG_TASKS_DELETE
AFTER DELETE ON CFG_TASKS
BEGIN
    INSERT INTO AUD_METADATA_CHANGES (
        ACTOR, ACTOR_KIND, ORIGIN, PIPELINE_ID, TABLE_NAME, ROW_KEY, OPERATION, BEFORE_JSON, AFTER_JSON)
    SELECT
        a.ACTOR,
        a.ACTOR_KIND,
        a.ORIGIN,
        OLD.PIPELINE_ID,
        'CFG_TASKS',
        (SELECT PIPELINE_CODE FROM CFG_PIPELINES WHERE PIPELINE_ID = OLD.PIPELINE_ID) || '.' || OLD.TASK_CODE,
        'DELETE',
        json_object(
            'task_id', OLD.TASK_ID, 'task_code', OLD.TASK_CODE, 'task_type', OLD.TASK_TYPE,
            'pipeline_id', OLD.PIPELINE_ID, 'handler', OLD.HANDLER, 'run_condition', OLD.RUN_CONDITION,
            'run_condition_count', OLD.RUN_CONDITION_COUNT, 'active_flag', OLD.ACTIVE_FLAG, 'origin', OLD.ORIGIN,
            'created_by', OLD.CREATED_BY, 'create_date', OLD.CREATE_DATE, 'updated_by', OLD.UPDATED_BY,
            'updated_date', OLD.UPDATED_DATE),
        NULL
    FROM ENGINE_ACTOR a;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER TR_CFG_TASK_PARAMETERS_INSERT
AFTER INSERT ON CFG_TASK_PARAMETERS
BEGIN
    UPDATE CFG_TASK_PARAMETERS
    SET CREATED_BY = COALESCE(NULLIF(CREATED_BY, ''), (SELECT ACTOR FROM ENGINE_ACTOR)),
        UPDATED_BY = COALESCE(NULLIF(UPDATED_BY, ''), (SELECT ACTOR FROM ENGINE_ACTOR)),
        ORIGIN = COALESCE(ORIGIN, (SELECT ORIGIN FROM ENGINE_ACTOR))
    WHERE TASK_PARAMETER_ID = NEW.TASK_PARAMETER_ID;
    INSERT INTO AUD_METADATA_CHANGES (
        ACTOR, ACTOR_KIND, ORIGIN, PIPELINE_ID, TABLE_NAME, ROW_KEY, OPERATION, BEFORE_JSON, AFTER_JSON)
    SELECT
        a.ACTOR,
        a.ACTOR_KIND,
        a.ORIGIN,
        (SELECT PIPELINE_ID FROM CFG_TASKS WHERE TASK_ID = NEW.TASK_ID),
        'CFG_TASK_PARAMETERS',
        (SELECT TASK_NAME FROM ENGINE_TASK_NAMES WHERE TASK_ID = NEW.TASK_ID)
        || '.' || NEW.PARAMETER_NAME,
        'INSERT',
        NULL,
        json_object(
            'task_parameter_id', r.TASK_PARAMETER_ID, 'task_id', r.TASK_ID, 'parameter_name', r.PARAMETER_NAME,
            'parameter_value', r.PARAMETER_VALUE, 'active_flag', r.ACTIVE_FLAG, 'origin', r.ORIGIN,
            'created_by', r.CREATED_BY, 'create_date', r.CREATE_DATE, 'updated_by', r.UPDATED_BY,
            'updated_date', r.UPDATED_DATE)
    FROM ENGINE_ACTOR a JOIN CFG_TASK_PARAMETERS r ON r.TASK_PARAMETER_ID = NEW.TASK_PARAMETER_ID;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER TR_CFG_TASK_PARAMETERS_UPDATE
AFTER UPDATE ON CFG_TASK_PARAMETERS
WHEN OLD.CREATED_BY <> '' AND (
    NEW.TASK_PARAMETER_ID IS NOT OLD.TASK_PARAMETER_ID
    OR NEW.TASK_ID IS NOT OLD.TASK_ID
    OR NEW.PARAMETER_NAME IS NOT OLD.PARAMETER_NAME
    OR NEW.PARAMETER_VALUE IS NOT OLD.PARAMETER_VALUE
    OR NEW.ACTIVE_FLAG IS NOT OLD.ACTIVE_FLAG
    OR NEW.ORIGIN IS NOT OLD.ORIGIN
    OR NEW.CREATED_BY IS NOT OLD.CREATED_BY
    OR NEW.CREATE_DATE IS NOT OLD.CREATE_DATE)
BEGIN
    UPDATE CFG_TASK_PARAMETERS
    SET CREATED_BY = OLD.CREATED_BY,
        CREATE_DATE = OLD.CREATE_DATE,
        UPDATED_BY = (SELECT ACTOR FROM ENGINE_ACTOR),
        UPDATED_DATE = strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z'
    WHERE TASK_PARAMETER_ID = NEW.TASK_PARAMETER_ID;
    INSERT INTO AUD_METADATA_CHANGES (
        ACTOR, ACTOR_KIND, ORIGIN, PIPELINE_ID, TABLE_NAME, ROW_KEY, OPERATION, BEFORE_JSON, AFTER_JSON)
    SELECT
        a.ACTOR,
        a.ACTOR_KIND,
        a.ORIGIN,
        (SELECT PIPELINE_ID FROM CFG_TASKS WHERE TASK_ID = NEW.TASK_ID),
        'CFG_TASK_PARAMETERS',
        (SELECT TASK_NAME FROM ENGINE_TASK_NAMES WHERE TASK_ID = NEW.TASK_ID)
        || '.' || NEW.PARAMETER_NAME,
        'UPDATE',
        json_object(
            'task_parameter_id', OLD.TASK_PARAMETER_ID, 'task_id', OLD.TASK_ID, 'parameter_name', OLD.PARAMETER_NAME,
            'parameter_value', OLD.PARAMETER_VALUE, 'active_flag', OLD.ACTIVE_FLAG, 'origin', OLD.ORIGIN,
            'created_by', OLD.CREATED_BY, 'create_date', OLD.CREATE_DATE, 'updated_by', OLD.UPDATED_BY,
            'updated_date', OLD.UPDATED_DATE),
        json_object(
            'task_parameter_id', r.TASK_PARAMETER_ID, 'task_id', r.TASK_ID, 'parameter_name', r.PARAMETER_NAME,
            'parameter_value', r.PARAMETER_VALUE, 'active_flag', r.ACTIVE_FLAG, 'origin', r.ORIGIN,
            'created_by', r.CREATED_BY, 'create_date', r.CREATE_DATE, 'updated_by', r.UPDATED_BY,
            'updated_date', r.UPDATED_DATE)
    FROM ENGINE_ACTOR a JOIN CFG_TASK_PARAMETERS r ON r.TASK_PARAMETER_ID = NEW.TASK_PARAMETER_ID;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER TR_CFG_TASK_PARAMETERS_DELETE
AFTER DELETE ON CFG_TASK_PARAMETERS
BEGIN
    INSERT INTO AUD_METADATA_CHANGES (
        ACTOR, ACTOR_KIND, ORIGIN, PIPELINE_ID, TABLE_NAME, ROW_KEY, OPERATION, BEFORE_JSON, AFTER_JSON)
    SELECT
        a.ACTOR,
        a.ACTOR_KIND,
        a.ORIGIN,
        (SELECT PIPELINE_ID FROM CFG_TASKS WHERE TASK_ID = OLD.TASK_ID),
        'CFG_TASK_PARAMETERS',
        (SELECT TASK_NAME FROM ENGINE_TASK_NAMES WHERE TASK_ID = OLD.TASK_ID)
        || '.' || OLD.PARAMETER_NAME,
        'DELETE',
        json_object(
            'task_parameter_id', OLD.TASK_PARAMETER_ID, 'task_id', OLD.TASK_ID, 'parameter_name', OLD.PARAMETER_NAME,
            'parameter_value', OLD.PARAMETER_VALUE, 'active_flag', OLD.ACTIVE_FLAG, 'origin', OLD.ORIGIN,
            'created_by', OLD.CREATED_BY, 'create_date', OLD.CREATE_DATE, 'updated_by', OLD.UPDATED_BY,
            'updated_date', OLD.UPDATED_DATE),
        NULL
    FROM ENGINE_ACTOR a;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER TR_CFG_TASK_DEPENDENCY_FILLED
BEFORE UPDATE OF DEPENDS_ON_PIPELINE_ID ON CFG_TASK_DEPENDENCY
WHEN NEW.DEPENDS_ON_PIPELINE_ID IS NULL
BEGIN
    SELECT RAISE(ABORT, 'CFG_TASK_DEPENDENCY.DEPENDS_ON_PIPELINE_ID may not become NULL');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER TR_CFG_TASK_DEPENDENCY_INSERT
AFTER INSERT ON CFG_TASK_DEPENDENCY
BEGIN
    UPDATE CFG_TASK_DEPENDENCY
    SET CREATED_BY = COALESCE(NULLIF(CREATED_BY, ''), (SELECT ACTOR FROM ENGINE_ACTOR)),
        UPDATED_BY = COALESCE(NULLIF(UPDATED_BY, ''), (SELECT ACTOR FROM ENGINE_ACTOR)),
        ORIGIN = COALESCE(ORIGIN, (SELECT ORIGIN FROM ENGINE_ACTOR)),
        DEPENDS_ON_PIPELINE_ID = COALESCE(
            DEPENDS_ON_PIPELINE_ID, (SELECT PIPELINE_ID FROM CFG_TASKS WHERE TASK_ID = NEW.DEPENDS_ON_TASK_ID))
    WHERE TASK_DEPENDENCY_ID = NEW.TASK_DEPENDENCY_ID;
    INSERT INTO AUD_METADATA_CHANGES (
        ACTOR, ACTOR_KIND, ORIGIN, PIPELINE_ID, TABLE_NAME, ROW_KEY, OPERATION, BEFORE_JSON, AFTER_JSON)
    SELECT
        a.ACTOR,
        a.ACTOR_KIND,
        a.ORIGIN,
        NEW.PIPELINE_ID,
        'CFG_TASK_DEPENDENCY',
        (SELECT TASK_NAME FROM ENGINE_TASK_NAMES WHERE TASK_ID = NEW.TASK_ID)
        || ' <- ' || (SELECT TASK_NAME FROM ENGINE_TASK_NAMES WHERE TASK_ID = NEW.DEPENDS_ON_TASK_ID)
        || ' on ' || NEW.DEPENDENCY_TYPE,
        'INSERT',
        NULL,
        json_object(
            'task_dependency_id', r.TASK_DEPENDENCY_ID, 'pipeline_id', r.PIPELINE_ID, 'task_id', r.TASK_ID,
            'depends_on_pipeline_id', r.DEPENDS_ON_PIPELINE_ID, 'depends_on_task_id', r.DEPENDS_ON_TASK_ID,
            'dependency_type', r.DEPENDENCY_TYPE, 'match', r.MATCH, 'consume_repairs', r.CONSUME_REPAIRS,
            'active_flag', r.ACTIVE_FLAG, 'origin', r.ORIGIN, 'created_by', r.CREATED_BY,
            'create_date', r.CREATE_DATE, 'updated_by', r.UPDATED_BY, 'updated_date', r.UPDATED_DATE)
    FROM ENGINE_ACTOR a JOIN CFG_TASK_DEPENDENCY r ON r.TASK_DEPENDENCY_ID = NEW.TASK_DEPENDENCY_ID;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER TR_CFG_TASK_DEPENDENCY_UPDATE
AFTER UPDATE ON CFG_TASK_DEPENDENCY
WHEN OLD.CREATED_BY <> '' AND (
    NEW.TASK_DEPENDENCY_ID IS NOT OLD.TASK_DEPENDENCY_ID
    OR NEW.PIPELINE_ID IS NOT OLD.PIPELINE_ID
    OR NEW.TASK_ID IS NOT OLD.TASK_ID
    OR NEW.DEPENDS_ON_PIPELINE_ID IS NOT OLD.DEPENDS_ON_PIPELINE_ID
    OR NEW.DEPENDS_ON_TASK_ID IS NOT OLD.DEPENDS_ON_TASK_ID
    OR NEW.DEPENDENCY_TYPE IS NOT OLD.DEPENDENCY_TYPE
    OR NEW.MATCH IS NOT OLD.MATCH
    OR NEW.CONSUME_REPAIRS IS NOT OLD.CONSUME_REPAIRS
    OR NEW.ACTIVE_FLAG IS NOT OLD.ACTIVE_FLAG
    OR NEW.ORIGIN IS NOT OLD.ORIGIN
    OR NEW.CREATED_BY IS NOT OLD.CREATED_BY
    OR NEW.CREATE_DATE IS NOT OLD.CREATE_DATE)
BEGIN
    UPDATE CFG_TASK_DEPENDENCY
    SET CREATED_BY = OLD.CREATED_BY,
        CREATE_DATE = OLD.CREATE_DATE,
        UPDATED_BY = (SELECT ACTOR FROM ENGINE_ACTOR),
        UPDATED_DATE = strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z'
    WHERE TASK_DEPENDENCY_ID = NEW.TASK_DEPENDENCY_ID;
    INSERT INTO AUD_METADATA_CHANGES (
        ACTOR, ACTOR_KIND, ORIGIN, PIPELINE_ID, TABLE_NAME, ROW_KEY, OPERATION, BEFORE_JSON, AFTER_JSON)
    SELECT
        a.ACTOR,
        a.ACTOR_KIND,
        a.ORIGIN,
        NEW.PIPELINE_ID,
        'CFG_TASK_DEPENDENCY',
        (SELECT TASK_NAME FROM ENGINE_TASK_NAMES WHERE TASK_ID = NEW.TASK_ID)
        || ' <- ' || (SELECT TASK_NAME FROM ENGINE_TASK_NAMES WHERE TASK_ID = NEW.DEPENDS_ON_TASK_ID)
        || ' on ' || NEW.DEPENDENCY_TYPE,
        'UPDATE',
        json_object(
            'task_dependency_id', OLD.TASK_DEPENDENCY_ID, 'pipeline_id', OLD.PIPELINE_ID, 'task_id', OLD.TASK_ID,
            'depends_on_pipeline_id', OLD.DEPENDS_ON_PIPELINE_ID, 'depends_on_task_id', OLD.DEPENDS_ON_TASK_ID,
            'dependency_type', OLD.DEPENDENCY_TYPE, 'match', OLD.MATCH, 'consume_repairs', OLD.CONSUME_REPAIRS,
            'active_flag', OLD.ACTIVE_FLAG, 'origin', OLD.ORIGIN, 'created_by', OLD.CREATED_BY,
            'create_date', OLD.CREATE_DATE, 'updated_by', OLD.UPDATED_BY, 'updated_date', OLD.UPDATED_DATE),
        json_object(
            'task_dependency_id', r.TASK_DEPENDENCY_ID, 'pipeline_id', r.PIPELINE_ID, 'task_id', r.TASK_ID,
            'depends_on_pipeline_id', r.DEPENDS_ON_PIPELINE_ID, 'depends_on_task_id', r.DEPENDS_ON_TASK_ID,
            'dependency_type', r.DEPENDENCY_TYPE, 'match', r.MATCH, 'consume_repairs', r.CONSUME_REPAIRS,
            'active_flag', r.ACTIVE_FLAG, 'origin', r.ORIGIN, 'created_by', r.CREATED_BY,
            'create_date', r.CREATE_DATE, 'updated_by', r.UPDATED_BY, 'updated_date', r.UPDATED_DATE)
    FROM ENGINE_ACTOR a JOIN CFG_TASK_DEPENDENCY r ON r.TASK_DEPENDENCY_ID = NEW.TASK_DEPENDENCY_ID;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER TR_CFG_TASK_DEPENDENCY_DELETE
AFTER DELETE ON CFG_TASK_DEPENDENCY
BEGIN
    INSERT INTO AUD_METADATA_CHANGES (
        ACTOR, ACTOR_KIND, ORIGIN, PIPELINE_ID, TABLE_NAME, ROW_KEY, OPERATION, BEFORE_JSON, AFTER_JSON)
    SELECT
        a.ACTOR,
        a.ACTOR_KIND,
        a.ORIGIN,
        OLD.PIPELINE_ID,
        'CFG_TASK_DEPENDENCY',
        (SELECT TASK_NAME FROM ENGINE_TASK_NAMES WHERE TASK_ID = OLD.TASK_ID)
        || ' <- ' || (SELECT TASK_NAME FROM ENGINE_TASK_NAMES WHERE TASK_ID = OLD.DEPENDS_ON_TASK_ID)
        || ' on ' || OLD.DEPENDENCY_TYPE,
        'DELETE',
        json_object(
            'task_dependency_id', OLD.TASK_DEPENDENCY_ID, 'pipeline_id', OLD.PIPELINE_ID, 'task_id', OLD.TASK_ID,
            'depends_on_pipeline_id', OLD.DEPENDS_ON_PIPELINE_ID, 'depends_on_task_id', OLD.DEPENDS_ON_TASK_ID,
            'dependency_type', OLD.DEPENDENCY_TYPE, 'match', OLD.MATCH, 'consume_repairs', OLD.CONSUME_REPAIRS,
            'active_flag', OLD.ACTIVE_FLAG, 'origin', OLD.ORIGIN, 'created_by', OLD.CREATED_BY,
            'create_date', OLD.CREATE_DATE, 'updated_by', OLD.UPDATED_BY, 'updated_date', OLD.UPDATED_DATE),
        NULL
    FROM ENGINE_ACTOR a;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER TR_CFG_PIPELINE_DEPENDENCY_INSERT
AFTER INSERT ON CFG_PIPELINE_DEPENDENCY
BEGIN
    UPDATE CFG_PIPELINE_DEPENDENCY
    SET CREATED_BY = COALESCE(NULLIF(CREATED_BY, ''), (SELECT ACTOR FROM ENGINE_ACTOR)),
        UPDATED_BY = COALESCE(NULLIF(UPDATED_BY, ''), (SELECT ACTOR FROM ENGINE_ACTOR)),
        ORIGIN = COALESCE(ORIGIN, (SELECT ORIGIN FROM ENGINE_ACTOR))
    WHERE PIPELINE_DEPENDENCY_ID = NEW.PIPELINE_DEPENDENCY_ID;
    INSERT INTO AUD_METADATA_CHANGES (
        ACTOR, ACTOR_KIND, ORIGIN, PIPELINE_ID, TABLE_NAME, ROW_KEY, OPERATION, BEFORE_JSON, AFTER_JSON)
    SELECT
        a.ACTOR,
        a.ACTOR_KIND,
        a.ORIGIN,
        NEW.PIPELINE_ID,
        'CFG_PIPELINE_DEPENDENCY',
        (SELECT PIPELINE_CODE FROM CFG_PIPELINES WHERE PIPELINE_ID = NEW.PIPELINE_ID)
        || ' <- ' || (SELECT PIPELINE_CODE FROM CFG_PIPELINES WHERE PIPELINE_ID = NEW.DEPENDS_ON_PIPELINE_ID)
        || ' on ' || NEW.DEPENDENCY_TYPE,
        'INSERT',
        NULL,
        json_object(
            'pipeline_dependency_id', r.PIPELINE_DEPENDENCY_ID, 'pipeline_id', r.PIPELINE_ID,
            'depends_on_pipeline_id', r.DEPENDS_ON_PIPELINE_ID, 'dependency_type', r.DEPENDENCY_TYPE,
            'match', r.MATCH, 'consume_repairs', r.CONSUME_REPAIRS, 'active_flag', r.ACTIVE_FLAG, 'origin', r.ORIGIN,
            'created_by', r.CREATED_BY, 'create_date', r.CREATE_DATE, 'updated_by', r.UPDATED_BY,
            'updated_date', r.UPDATED_DATE)
    FROM ENGINE_ACTOR a JOIN CFG_PIPELINE_DEPENDENCY r ON r.PIPELINE_DEPENDENCY_ID = NEW.PIPELINE_DEPENDENCY_ID;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER TR_CFG_PIPELINE_DEPENDENCY_UPDATE
AFTER UPDATE ON CFG_PIPELINE_DEPENDENCY
WHEN OLD.CREATED_BY <> '' AND (
    NEW.PIPELINE_DEPENDENCY_ID IS NOT OLD.PIPELINE_DEPENDENCY_ID
    OR NEW.PIPELINE_ID IS NOT OLD.PIPELINE_ID
    OR NEW.DEPENDS_ON_PIPELINE_ID IS NOT OLD.DEPENDS_ON_PIPELINE_ID
    OR NEW.DEPENDENCY_TYPE IS NOT OLD.DEPENDENCY_TYPE
    OR NEW.MATCH IS NOT OLD.MATCH
    OR NEW.CONSUME_REPAIRS IS NOT OLD.CONSUME_REPAIRS
    OR NEW.ACTIVE_FLAG IS NOT OLD.ACTIVE_FLAG
    OR NEW.ORIGIN IS NOT OLD.ORIGIN
    OR NEW.CREATED_BY IS NOT OLD.CREATED_BY
    OR NEW.CREATE_DATE IS NOT OLD.CREATE_DATE)
BEGIN
    UPDATE CFG_PIPELINE_DEPENDENCY
    SET CREATED_BY = OLD.CREATED_BY,
        CREATE_DATE = OLD.CREATE_DATE,
        UPDATED_BY = (SELECT ACTOR FROM ENGINE_ACTOR),
        UPDATED_DATE = strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z'
    WHERE PIPELINE_DEPENDENCY_ID = NEW.PIPELINE_DEPENDENCY_ID;
    INSERT INTO AUD_METADATA_CHANGES (
        ACTOR, ACTOR_KIND, ORIGIN, PIPELINE_ID, TABLE_NAME, ROW_KEY, OPERATION, BEFORE_JSON, AFTER_JSON)
    SELECT
        a.ACTOR,
        a.ACTOR_KIND,
        a.ORIGIN,
        NEW.PIPELINE_ID,
        'CFG_PIPELINE_DEPENDENCY',
        (SELECT PIPELINE_CODE FROM CFG_PIPELINES WHERE PIPELINE_ID = NEW.PIPELINE_ID)
        || ' <- ' || (SELECT PIPELINE_CODE FROM CFG_PIPELINES WHERE PIPELINE_ID = NEW.DEPENDS_ON_PIPELINE_ID)
        || ' on ' || NEW.DEPENDENCY_TYPE,
        'UPDATE',
        json_object(
            'pipeline_dependency_id', OLD.PIPELINE_DEPENDENCY_ID, 'pipeline_id', OLD.PIPELINE_ID,
            'depends_on_pipeline_id', OLD.DEPENDS_ON_PIPELINE_ID, 'dependency_type', OLD.DEPENDENCY_TYPE,
            'match', OLD.MATCH, 'consume_repairs', OLD.CONSUME_REPAIRS, 'active_flag', OLD.ACTIVE_FLAG,
            'origin', OLD.ORIGIN, 'created_by', OLD.CREATED_BY, 'create_date', OLD.CREATE_DATE,
            'updated_by', OLD.UPDATED_BY, 'updated_date', OLD.UPDATED_DATE),
        json_object(
            'pipeline_dependency_id', r.PIPELINE_DEPENDENCY_ID, 'pipeline_id', r.PIPELINE_ID,
            'depends_on_pipeline_id', r.DEPENDS_ON_PIPELINE_ID, 'dependency_type', r.DEPENDENCY_TYPE,
            'match', r.MATCH, 'consume_repairs', r.CONSUME_REPAIRS, 'active_flag', r.ACTIVE_FLAG, 'origin', r.ORIGIN,
            'created_by', r.CREATED_BY, 'create_date', r.CREATE_DATE, 'updated_by', r.UPDATED_BY,
            'updated_date', r.UPDATED_DATE)
    FROM ENGINE_ACTOR a JOIN CFG_PIPELINE_DEPENDENCY r ON r.PIPELINE_DEPENDENCY_ID = NEW.PIPELINE_DEPENDENCY_ID;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER TR_CFG_PIPELINE_DEPENDENCY_DELETE
AFTER DELETE ON CFG_PIPELINE_DEPENDENCY
BEGIN
    INSERT INTO AUD_METADATA_CHANGES (
        ACTOR, ACTOR_KIND, ORIGIN, PIPELINE_ID, TABLE_NAME, ROW_KEY, OPERATION, BEFORE_JSON, AFTER_JSON)
    SELECT
        a.ACTOR,
        a.ACTOR_KIND,
        a.ORIGIN,
        OLD.PIPELINE_ID,
        'CFG_PIPELINE_DEPENDENCY',
        (SELECT PIPELINE_CODE FROM CFG_PIPELINES WHERE PIPELINE_ID = OLD.PIPELINE_ID)
        || ' <- ' || (SELECT PIPELINE_CODE FROM CFG_PIPELINES WHERE PIPELINE_ID = OLD.DEPENDS_ON_PIPELINE_ID)
        || ' on ' || OLD.DEPENDENCY_TYPE,
        'DELETE',
        json_object(
            'pipeline_dependency_id', OLD.PIPELINE_DEPENDENCY_ID, 'pipeline_id', OLD.PIPELINE_ID,
            'depends_on_pipeline_id', OLD.DEPENDS_ON_PIPELINE_ID, 'dependency_type', OLD.DEPENDENCY_TYPE,
            'match', OLD.MATCH, 'consume_repairs', OLD.CONSUME_REPAIRS, 'active_flag', OLD.ACTIVE_FLAG,
            'origin', OLD.ORIGIN, 'created_by', OLD.CREATED_BY, 'create_date', OLD.CREATE_DATE,
            'updated_by', OLD.UPDATED_BY, 'updated_date', OLD.UPDATED_DATE),
        NULL
    FROM ENGINE_ACTOR a;
END;
-- +goose StatementEnd
