-- on_both(): executes a statement on tables "parted" and "plain" ("t" stands for either), and returns what came of it: rows,
-- their number, what triggers have logged, SQLSTATE and message without names; marked where the tables differ. \i this file.
\set ECHO none
CREATE TABLE log (side text, line text, number serial);
CREATE FUNCTION one(statement text, side text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    result text[] := '{}'; row record; rows bigint; message text;
BEGIN
    statement := regexp_replace(statement, '\mt(?=_by|\M)', side, 'g');
    BEGIN
        IF statement ~ 'RETURNING|SELECT \* FROM' THEN
            FOR row IN EXECUTE statement LOOP
                result := result || row::text;
            END LOOP;
        ELSE
            EXECUTE statement;
            GET DIAGNOSTICS rows = ROW_COUNT;
            result := result || (rows || ' rows');
        END IF;
    EXCEPTION WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS message = MESSAGE_TEXT;
        result := ARRAY[SQLSTATE || ': ' || replace(regexp_replace(message, '(relation|constraint) "\w+"', '\1'), side, 't')];
    END;
    result := result || ARRAY(SELECT line FROM log AS l WHERE l.side = one.side ORDER BY number);
    DELETE FROM log AS l WHERE l.side = one.side;
    RETURN result;
END $$;
CREATE FUNCTION on_both(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    parted text[] := one(statement, 'parted'); plain text[] := one(statement, 'plain');
BEGIN
    IF parted = plain THEN
        RETURN QUERY SELECT unnest(parted);
    ELSE
        RETURN QUERY SELECT 'DIFFERS, parted: ' || unnest(parted) UNION ALL SELECT 'DIFFERS, plain: ' || unnest(plain);
    END IF;
END $$;
\set ECHO all
