//! The versions of the schema, as in `user_version`.

use rusqlite::{Connection, Transaction, TransactionBehavior};

/// What brings a database up to each version, in their order; an empty one gets all. dlrun 0.1 wrote version 8. A released version is
/// never changed.
const VERSIONS: [(i32, &str); 6] = [
    (8, include_str!("schema-8.sql")),
    (11, include_str!("schema-11.sql")),
    (12, include_str!("schema-12.sql")),
    (13, include_str!("schema-13.sql")),
    (14, include_str!("schema-14.sql")),
    (15, include_str!("schema-15.sql")),
];

/// `dlrn`: distinguishes our databases from others.
const APPLICATION_ID: i32 = 0x646c_726e;

/// Whose a database is, and how old.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Ready for use.
    Current,
    /// Somebody else's.
    Foreign,
    /// Of an older dlrun, of this version; 0: empty.
    Older(i32),
    /// Of a newer dlrun, of this version.
    Newer(i32),
}

/// The version that this dlrun writes.
pub(super) const VERSION: i32 = VERSIONS[VERSIONS.len() - 1].0;

/// Says whose a database is without writing to it.
pub(super) fn inspect(connection: &mut Connection) -> rusqlite::Result<Found> {
    judge(&connection.transaction()?, &VERSIONS)
}

/// Brings a database up to date. One that is current is only read.
pub(super) fn migrate(connection: &mut Connection) -> rusqlite::Result<Found> {
    migrate_by(connection, &VERSIONS)
}

fn migrate_by(connection: &mut Connection, versions: &[(i32, &str)]) -> rusqlite::Result<Found> {
    match judge(&connection.transaction()?, versions)? {
        Found::Older(_) => {}
        found => return Ok(found),
    }
    // Exclusive, and judged again inside: another process may have been quicker.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    let seen = match judge(&transaction, versions)? {
        Found::Older(seen) => seen,
        found => return Ok(found),
    };
    for (version, sql) in versions.iter().filter(|(version, _)| *version > seen) {
        transaction.execute_batch(sql)?;
        transaction.pragma_update(None, "user_version", version)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.commit()?;
    Ok(Found::Current)
}

/// The order matters to the number of system calls: the first `PRAGMA` takes the lock that reading the schema needs too.
fn judge(transaction: &Transaction<'_>, versions: &[(i32, &str)]) -> rusqlite::Result<Found> {
    let version: i32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let application: i32 =
        transaction.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let any_table = "SELECT EXISTS (SELECT 1 FROM sqlite_schema)";
    let tables: bool = transaction.query_row(any_table, [], |row| row.get(0))?;
    let known: Vec<i32> = versions.iter().map(|(version, _)| *version).collect();
    Ok(match (application, version) {
        (APPLICATION_ID, version) if known.last() == Some(&version) => Found::Current,
        (APPLICATION_ID, version) if known.last() < Some(&version) => Found::Newer(version),
        (APPLICATION_ID, version) if known.contains(&version) => Found::Older(version),
        (0, 0) if !tables => Found::Older(0),
        _ => Found::Foreign,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Connection {
        Connection::open_in_memory().expect("memory")
    }

    #[test]
    fn each_migration_runs_once_and_in_order() {
        let steps = [
            (1, "CREATE TABLE a (x) "),
            (2, "ALTER TABLE a ADD COLUMN y"),
            (5, "INSERT INTO a (x, y) VALUES (1, 2)"),
        ];
        let mut connection = empty();
        for upto in [1, 1, 3, 3] {
            assert_eq!(
                migrate_by(&mut connection, &steps[..upto]),
                Ok(Found::Current)
            );
        }
        let rows: i32 = connection
            .query_row("SELECT count(*) FROM a", [], |row| row.get(0))
            .expect("rows");
        assert_eq!(rows, 1);
        assert_eq!(
            migrate_by(&mut connection, &steps[..2]),
            Ok(Found::Newer(5))
        );
        let known = [(1, ""), (4, ""), (6, "")];
        assert_eq!(migrate_by(&mut connection, &known), Ok(Found::Foreign));
    }

    #[test]
    fn a_migration_that_fails_leaves_the_database_as_it_was() {
        let mut connection = empty();
        migrate_by(&mut connection, &[(1, "CREATE TABLE a (x)")]).expect("first");
        let broken = [
            (1, "CREATE TABLE a (x)"),
            (2, "CREATE TABLE b (x); CREATE TABLE a (x)"),
        ];
        migrate_by(&mut connection, &broken).expect_err("table a exists");
        let tables: i32 = connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .expect("rows");
        assert_eq!(tables, 1);
        assert_eq!(
            migrate_by(&mut connection, &broken[..1]),
            Ok(Found::Current)
        );
    }

    #[test]
    fn databases_of_others_are_left_alone() {
        let mut connection = empty();
        connection
            .execute_batch("CREATE TABLE bookmarks (url)")
            .expect("a table");
        assert_eq!(migrate(&mut connection), Ok(Found::Foreign));
        let mut connection = empty();
        connection
            .pragma_update(None, "application_id", 7)
            .expect("set");
        assert_eq!(migrate(&mut connection), Ok(Found::Foreign));
    }
}
