#!/bin/sh
# Run `combopeps` with these arguments; the password of PostgreSQL is read from the file that PGPASSWORD_FILE names.
set -eu
if [ -n "${PGPASSWORD_FILE:-}" ]; then
    PGPASSWORD=$(cat "$PGPASSWORD_FILE")
    export PGPASSWORD
fi
exec combopeps "$@"
