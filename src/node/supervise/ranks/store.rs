//! The store of keys in which Horovod's workers find each other over Gloo (`horovod/runner/http/http_server.py`, 0.28.1):
//! `PUT /scope/key` keeps a value, `GET` answers it or 404, `DELETE /scope/rank` says that a rank is through with a scope, which
//! is emptied when all are.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tiny_http::{Method, Request, Response, Server};

use crate::launch::Meeting;

/// The longest value that is kept and all of them together, in bytes: a worker keeps an address for each other one.
const VALUE: usize = 64 << 10;
const ALL: usize = 64 << 20;
/// Requests at a time: one whose body does not come holds up no other.
const AT_ONCE: usize = 256;

/// How many ranks each scope has: all of them, those of a node, those of one local number.
pub(super) fn scopes(meeting: &Meeting) -> BTreeMap<String, usize> {
    let mut scopes = BTreeMap::new();
    let mut count = |scope: String| *scopes.entry(scope).or_insert(0) += 1;
    for rank in meeting.ranks() {
        count("global".to_owned());
        let host = meeting
            .nodes
            .get(rank.node as usize)
            .map(|node| &*node.host);
        count(format!("local_{}", host.unwrap_or_default()));
        count(format!("cross_{}", rank.local));
    }
    scopes
}

#[derive(Default)]
struct Store {
    scopes: BTreeMap<String, usize>,
    values: BTreeMap<(String, String), Vec<u8>>,
    bytes: usize,
    /// Ranks that are through, by scope.
    through: BTreeMap<String, BTreeSet<String>>,
}

impl Store {
    /// Status and body of the answer.
    fn answer(&mut self, method: &Method, path: &str, body: Vec<u8>) -> (u16, Vec<u8>) {
        let path = path.trim_start_matches('/');
        let Some((scope, key)) = path.split_once('/').filter(|(_, key)| !key.contains('/')) else {
            return (400, Vec::new());
        };
        let place = (scope.to_owned(), key.to_owned());
        match method {
            Method::Get => match self.values.get(&place) {
                Some(value) => (200, value.clone()),
                None => (404, Vec::new()),
            },
            Method::Put if body.len() > VALUE || self.bytes + body.len() > ALL => (507, Vec::new()),
            Method::Put => {
                // Its name counts too, and what a map takes.
                self.bytes += body.len() + path.len() + 64;
                self.values.insert(place, body);
                (200, Vec::new())
            }
            Method::Delete => {
                self.leave(scope, key);
                (200, Vec::new())
            }
            _ => (405, Vec::new()),
        }
    }

    /// A rank is through with a scope. Of scopes that only the workers know, its key goes.
    fn leave(&mut self, scope: &str, rank: &str) {
        let Some(size) = self.scopes.get(scope) else {
            self.values.remove(&(scope.to_owned(), rank.to_owned()));
            return;
        };
        let through = self.through.entry(scope.to_owned()).or_default();
        if through.len() < *size {
            through.insert(rank.to_owned());
        }
        if through.len() == *size {
            self.through.remove(scope);
            self.values.retain(|(known, _), _| known != scope);
        }
    }
}

/// Serves the store on separate threads, for as long as the process lives.
pub(super) fn serve(listener: TcpListener, scopes: BTreeMap<String, usize>) {
    let Ok(server) = Server::from_listener(listener, None) else {
        return;
    };
    let store = Arc::new(Mutex::new(Store {
        scopes,
        ..Store::default()
    }));
    let running = Arc::new(AtomicUsize::new(0));
    std::thread::spawn(move || {
        for request in server.incoming_requests() {
            let (store, running) = (Arc::clone(&store), Arc::clone(&running));
            if running.fetch_add(1, Ordering::Relaxed) >= AT_ONCE {
                running.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            std::thread::spawn(move || {
                respond(request, &store);
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
}

fn respond(mut request: Request, store: &Mutex<Store>) {
    let mut body = Vec::new();
    let limit = VALUE as u64 + 1;
    let _ = request.as_reader().take(limit).read_to_end(&mut body);
    let (method, path) = (request.method().clone(), request.url().to_owned());
    let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
    let (status, answer) = store.answer(&method, &path, body);
    drop(store);
    let _ = request.respond(Response::from_data(answer).with_status_code(status));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_is_emptied_when_all_its_ranks_are_through() {
        let mut store = Store {
            scopes: [("global".to_owned(), 2), ("local_n1".to_owned(), 1)].into(),
            ..Store::default()
        };
        let mut ask =
            |method: &Method, path: &str, body: &[u8]| store.answer(method, path, body.to_vec());
        for path in ["/global/0", "/local_n1/0", "/own/0"] {
            assert_eq!(ask(&Method::Put, path, b"x").0, 200);
        }
        assert_eq!(ask(&Method::Delete, "/global/0", b"").0, 200);
        assert_eq!(ask(&Method::Get, "/global/0", b""), (200, b"x".to_vec()));
        for path in ["/global/1", "/local_n1/0", "/own/0"] {
            assert_eq!(ask(&Method::Delete, path, b"").0, 200);
        }
        for path in ["/global/0", "/local_n1/0", "/own/0"] {
            assert_eq!(ask(&Method::Get, path, b"").0, 404, "{path}");
        }
        assert_eq!(ask(&Method::Get, "/a/b/c", b"").0, 400);
        assert_eq!(ask(&Method::Put, "/a/b", &[0; VALUE + 1]).0, 507);
    }
}
