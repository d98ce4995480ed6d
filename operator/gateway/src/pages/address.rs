//! Parts of a page's address. One that can't be read leads to no page, as one of nothing does.

use axum::extract::{FromRequestParts, Path, Query};
use http::request::Parts;
use serde::de::DeserializeOwned;

use super::PageProblem;

/// The path of an address.
pub(super) struct AddressPath<T>(pub T);

/// Query of an address, parsed.
pub(super) struct AddressQuery<T>(pub T);

impl<S, T> FromRequestParts<S> for AddressPath<T>
where
    S: Send + Sync,
    T: DeserializeOwned + Send,
{
    type Rejection = PageProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, PageProblem> {
        let Path(path) =
            Path::from_request_parts(parts, state).await.map_err(|_| PageProblem::NoPage)?;
        Ok(Self(path))
    }
}

impl<S, T> FromRequestParts<S> for AddressQuery<T>
where
    S: Send + Sync,
    T: DeserializeOwned,
{
    type Rejection = PageProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, PageProblem> {
        let Query(query) =
            Query::from_request_parts(parts, state).await.map_err(|_| PageProblem::NoPage)?;
        Ok(Self(query))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    async fn read<T: DeserializeOwned>(address: &str) -> Result<T, PageProblem> {
        let (mut parts, ()) = http::Request::get(address).body(()).unwrap().into_parts();
        AddressQuery::from_request_parts(&mut parts, &()).await.map(|query| query.0)
    }

    #[tokio::test]
    async fn what_can_not_be_read_leads_to_no_page() {
        let pages: BTreeMap<String, usize> = read("/?page=2").await.unwrap();
        assert_eq!(pages["page"], 2);
        let odd = read::<BTreeMap<String, usize>>("/?page=x").await;
        assert!(matches!(odd, Err(PageProblem::NoPage)), "{odd:?}");
    }
}
