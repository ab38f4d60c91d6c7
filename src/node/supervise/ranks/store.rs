//! The store of keys in which Horovod's workers find each other over Gloo (`horovod/runner/http/http_server.py`, 0.28.1):
//! `PUT /scope/key` keeps a value, `GET` answers it or 404, `DELETE /scope/rank` says that a rank is through with a scope, which
//! is emptied when all are.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// The longest value that is kept, in bytes, and how many there may be: a worker keeps an address for each other one.
const VALUE: usize = 64 << 10;
const VALUES: usize = 1 << 20;

#[derive(Default)]
struct Store {
    values: BTreeMap<(String, String), Bytes>,
    /// Ranks that are through, by scope.
    through: BTreeMap<String, BTreeSet<String>>,
}

impl Store {
    fn put(&mut self, scope: String, key: String, value: Bytes) -> StatusCode {
        if self.values.len() >= VALUES {
            return StatusCode::INSUFFICIENT_STORAGE;
        }
        self.values.insert((scope, key), value);
        StatusCode::OK
    }

    /// `size`: ranks that a scope has. Of a scope that not all ranks share it is not known how many those are; `global` tells.
    fn delete(&mut self, scope: &str, rank: String, size: usize) -> StatusCode {
        let through = self.through.entry(scope.to_owned()).or_default();
        through.insert(rank);
        if through.len() >= size {
            self.through.remove(scope);
            self.values.retain(|(known, _), _| known != scope);
        }
        StatusCode::OK
    }
}

/// Serves the store to the `world` ranks of a group for as long as the process lives.
pub(super) async fn serve(listener: TcpListener, world: usize) {
    let store = Arc::new(Mutex::new(Store::default()));
    while let Ok((stream, _)) = listener.accept().await {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let answer = service_fn(move |request| answer(request, Arc::clone(&store), world));
            let http = hyper::server::conn::http1::Builder::new();
            let _ = http.serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    store: Arc<Mutex<Store>>,
    world: usize,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let of = |status: StatusCode, body: Bytes| {
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = status;
        Ok(response)
    };
    let (head, body) = request.into_parts();
    let path = head.uri.path().trim_start_matches('/').to_owned();
    let Some((scope, key)) = path.split_once('/').filter(|(_, key)| !key.contains('/')) else {
        return of(StatusCode::BAD_REQUEST, Bytes::new());
    };
    let (scope, key) = (scope.to_owned(), key.to_owned());
    let Ok(body) = Limited::new(body, VALUE).collect().await else {
        return of(StatusCode::PAYLOAD_TOO_LARGE, Bytes::new());
    };
    let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
    match head.method {
        Method::GET => match store.values.get(&(scope, key)) {
            Some(value) => of(StatusCode::OK, value.clone()),
            None => of(StatusCode::NOT_FOUND, Bytes::new()),
        },
        Method::PUT => of(store.put(scope, key, body.to_bytes()), Bytes::new()),
        Method::DELETE => of(store.delete(&scope, key, world), Bytes::new()),
        _ => of(StatusCode::METHOD_NOT_ALLOWED, Bytes::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_is_emptied_when_all_ranks_are_through() {
        let mut store = Store::default();
        for scope in ["global", "local_n1"] {
            store.put(scope.into(), "0".into(), Bytes::from_static(b"x"));
        }
        store.delete("global", "0".into(), 2);
        assert_eq!(store.values.len(), 2);
        store.delete("global", "1".into(), 2);
        assert_eq!(
            store.values.keys().next().map(|(scope, _)| &**scope),
            Some("local_n1")
        );
    }
}
