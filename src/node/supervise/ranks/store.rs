//! The store of keys in which Horovod's workers find each other over Gloo (`horovod/runner/http/http_server.py`, 0.28.1):
//! `PUT /scope/key` keeps a value, `GET` answers it or 404, `DELETE /scope/rank` says that a rank is through with a scope, which
//! is emptied when all are.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::TcpListener;

use tiny_http::{Method, Response, Server};

/// The longest value that is kept, in bytes, and how many there may be: a worker keeps an address for each other one.
const VALUE: usize = 64 << 10;
const VALUES: usize = 1 << 20;

#[derive(Default)]
struct Store {
    values: BTreeMap<(String, String), Vec<u8>>,
    /// Ranks that are through, by scope.
    through: BTreeMap<String, BTreeSet<String>>,
}

impl Store {
    /// Status and body of the answer; `ranks`: how many there are in all.
    fn answer(
        &mut self,
        method: &Method,
        path: &str,
        body: Vec<u8>,
        ranks: usize,
    ) -> (u16, Vec<u8>) {
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
            Method::Put if body.len() > VALUE || self.values.len() >= VALUES => (507, Vec::new()),
            Method::Put => {
                self.values.insert(place, body);
                (200, Vec::new())
            }
            Method::Delete => {
                let through = self.through.entry(place.0).or_default();
                through.insert(place.1);
                if through.len() >= ranks {
                    self.through.remove(scope);
                    self.values.retain(|(known, _), _| known != scope);
                }
                (200, Vec::new())
            }
            _ => (405, Vec::new()),
        }
    }
}

/// Serves the store to the ranks of a group, on a thread of its own, for as long as the process lives.
pub(super) fn serve(listener: TcpListener, ranks: usize) {
    let Ok(server) = Server::from_listener(listener, None) else {
        return;
    };
    std::thread::spawn(move || {
        let mut store = Store::default();
        for mut request in server.incoming_requests() {
            let mut body = Vec::new();
            let limit = VALUE as u64 + 1;
            let _ = request.as_reader().take(limit).read_to_end(&mut body);
            let (method, path) = (request.method().clone(), request.url().to_owned());
            let (status, answer) = store.answer(&method, &path, body, ranks);
            let _ = request.respond(Response::from_data(answer).with_status_code(status));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_is_emptied_when_all_ranks_are_through() {
        let mut store = Store::default();
        let mut ask =
            |method: &Method, path: &str, body: &[u8]| store.answer(method, path, body.to_vec(), 2);
        for path in ["/global/0", "/local_n1/0"] {
            assert_eq!(ask(&Method::Put, path, b"x").0, 200);
        }
        assert_eq!(ask(&Method::Delete, "/global/0", b"").0, 200);
        assert_eq!(ask(&Method::Get, "/global/0", b""), (200, b"x".to_vec()));
        assert_eq!(ask(&Method::Delete, "/global/1", b"").0, 200);
        assert_eq!(ask(&Method::Get, "/global/0", b"").0, 404);
        assert_eq!(ask(&Method::Get, "/local_n1/0", b"").0, 200);
        assert_eq!(ask(&Method::Get, "/a/b/c", b"").0, 400);
        assert_eq!(ask(&Method::Put, "/a/b", &[0; VALUE + 1]).0, 507);
    }
}
