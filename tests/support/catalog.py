"""What the catalogs of PostgreSQL say of the schema `duetime`, to compare two databases."""

import psycopg

_QUERIES = {
    "relation": """
        select c.relname, c.relkind, c.relpersistence, c.reloptions, c.relrowsecurity, c.relforcerowsecurity,
            c.relacl::text, pg_get_userbyid(c.relowner), c.relispartition,
            pg_get_expr(c.relpartbound, c.oid), pg_get_partkeydef(c.oid),
            case when c.relkind = 'v' then pg_get_viewdef(c.oid) end
        from pg_class c where c.relnamespace = 'duetime'::regnamespace""",
    "column": """
        select c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
            a.attgenerated, a.attstorage, a.attcompression, a.attcollation::regcollation::text, a.attacl::text,
            pg_get_expr(d.adbin, d.adrelid)
        from pg_attribute a join pg_class c on c.oid = a.attrelid
        left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where c.relnamespace = 'duetime'::regnamespace and a.attnum > 0 and not a.attisdropped""",
    "index": """
        select pg_get_indexdef(i.indexrelid), i.indisvalid, i.indisunique, i.indisprimary
        from pg_index i join pg_class c on c.oid = i.indexrelid where c.relnamespace = 'duetime'::regnamespace""",
    "constraint": """
        select conrelid::regclass::text, conname, pg_get_constraintdef(oid), convalidated from pg_constraint
        where connamespace = 'duetime'::regnamespace""",
    "trigger": """
        select pg_get_triggerdef(t.oid), t.tgenabled, t.tgdeferrable, t.tginitdeferred
        from pg_trigger t join pg_class c on c.oid = t.tgrelid
        where c.relnamespace = 'duetime'::regnamespace and not t.tgisinternal""",
    "function": """
        select p.oid::regprocedure::text, pg_get_functiondef(p.oid), p.proacl::text, pg_get_userbyid(p.proowner)
        from pg_proc p where p.pronamespace = 'duetime'::regnamespace""",
    "policy": "select * from pg_policies where schemaname = 'duetime'",
    "schema": "select nspacl::text from pg_namespace where nspname = 'duetime'",
    "sequence": "select sequencename, data_type::text, start_value, increment_by, last_value from pg_sequences"
    " where schemaname = 'duetime'",
}


def catalog(dsn: str) -> set[str]:
    with psycopg.connect(dsn) as connection:
        return {
            " | ".join([kind, *map(str, row)]) for kind, query in _QUERIES.items() for row in connection.execute(query)
        }
