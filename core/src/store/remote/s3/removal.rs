//! Removing objects, many in one request where the service can.

use std::collections::HashMap;

use aws_sdk_s3::types::{Delete, Error as Refusal, ObjectIdentifier};

use super::failure::of_code;
use super::{Attempt, S3};
use crate::error::{Error, ErrorKind, Result};

impl S3 {
    /// Removes objects; one answer each, in order. One that is not there is no error.
    pub(super) fn remove(&self, keys: &[String]) -> Vec<Result<()>> {
        if let [key] = keys {
            return vec![self.remove_one(key)];
        }
        match self.remove_batch(keys) {
            Ok(answers) => answers,
            Err(failure) if failure.refuses_batches() => keys.iter().map(|key| self.remove_one(key)).collect(),
            Err(failure) => vec![Err(failure.error); keys.len()],
        }
    }

    fn remove_one(&self, key: &str) -> Result<()> {
        let request = self.client.delete_object().bucket(&self.bucket).key(key).set_request_payer(self.payer.clone());
        match self.attempt("remove", key, request.send()) {
            Err(failure) if failure.error.kind() != ErrorKind::NotFound || failure.is_of_the_bucket() => Err(failure.error),
            _ => Ok(()),
        }
    }

    fn remove_batch(&self, keys: &[String]) -> Attempt<Vec<Result<()>>> {
        let operation = "remove objects of";
        let unusable = |cause| Error::new(ErrorKind::InvalidInput, self.could_not(operation, "")).with_cause(cause);
        let objects: Result<Vec<_>, _> = keys.iter().map(|key| ObjectIdentifier::builder().key(key).build()).collect();
        let delete =
            objects.and_then(|objects| Delete::builder().quiet(true).set_objects(Some(objects)).build()).map_err(unusable)?;
        let request = self.client.delete_objects().bucket(&self.bucket).delete(delete).set_request_payer(self.payer.clone());
        let answer = self.attempt(operation, "", request.send())?;
        let refused: HashMap<&str, &Refusal> = answer.errors().iter().filter_map(|error| Some((error.key()?, error))).collect();
        Ok(keys.iter().map(|key| refused.get(key.as_str()).map_or(Ok(()), |error| self.not_removed(key, error))).collect())
    }

    fn not_removed(&self, key: &str, refusal: &Refusal) -> Result<()> {
        let code = refusal.code().unwrap_or_default();
        let error = of_code(&self.could_not("remove", key), code, refusal.message().unwrap_or_default());
        if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) }
    }
}
