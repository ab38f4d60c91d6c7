//! The versions of the schema. `user_version` counts the migrations that a database has seen.

use rusqlite::{Connection, Transaction, TransactionBehavior};

/// Each brings a database one version up. Append only: a released one is never changed.
const MIGRATIONS: [&str; 12] = [
    include_str!("migration-1.sql"),
    include_str!("migration-2.sql"),
    include_str!("migration-3.sql"),
    include_str!("migration-4.sql"),
    include_str!("migration-5.sql"),
    include_str!("migration-6.sql"),
    include_str!("migration-7.sql"),
    include_str!("migration-8.sql"),
    include_str!("migration-9.sql"),
    include_str!("migration-10.sql"),
    include_str!("migration-11.sql"),
    include_str!("migration-12.sql"),
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
pub(super) fn version() -> i32 {
    i32::try_from(MIGRATIONS.len()).expect("few migrations")
}

/// Says whose a database is without writing to it.
pub(super) fn inspect(connection: &mut Connection) -> rusqlite::Result<Found> {
    judge(&connection.transaction()?, version())
}

/// Brings a database up to date. One that is current is only read.
pub(super) fn migrate(connection: &mut Connection) -> rusqlite::Result<Found> {
    migrate_by(connection, &MIGRATIONS)
}

fn migrate_by(connection: &mut Connection, migrations: &[&str]) -> rusqlite::Result<Found> {
    let current = i32::try_from(migrations.len()).expect("few migrations");
    match judge(&connection.transaction()?, current)? {
        Found::Older(_) => {}
        found => return Ok(found),
    }
    // Exclusive, and judged again inside: another process may have been quicker.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    let seen = match judge(&transaction, current)? {
        Found::Older(seen) => seen,
        found => return Ok(found),
    };
    for migration in &migrations[usize::try_from(seen).unwrap_or(0)..] {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", current)?;
    transaction.commit()?;
    Ok(Found::Current)
}

/// `None` where there is something to migrate: an empty database, or an older one of ours.
///
/// The order matters to the number of system calls: the first `PRAGMA` takes the lock that reading the schema needs too.
fn judge(transaction: &Transaction<'_>, current: i32) -> rusqlite::Result<Found> {
    let version: i32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let application: i32 =
        transaction.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let any_table = "SELECT EXISTS (SELECT 1 FROM sqlite_schema)";
    let tables: bool = transaction.query_row(any_table, [], |row| row.get(0))?;
    Ok(match (application, version) {
        (APPLICATION_ID, version) if version == current => Found::Current,
        (APPLICATION_ID, version) if version > current => Found::Newer(version),
        (APPLICATION_ID, version) if version > 0 => Found::Older(version),
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
            "CREATE TABLE a (x) ",
            "ALTER TABLE a ADD COLUMN y",
            "INSERT INTO a (x, y) VALUES (1, 2)",
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
            Ok(Found::Newer(3))
        );
    }

    #[test]
    fn a_migration_that_fails_leaves_the_database_as_it_was() {
        let mut connection = empty();
        migrate_by(&mut connection, &["CREATE TABLE a (x)"]).expect("first");
        let broken = [
            "CREATE TABLE a (x)",
            "CREATE TABLE b (x); CREATE TABLE a (x)",
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
