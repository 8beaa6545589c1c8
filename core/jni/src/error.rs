//! Errors and panics as exceptions of the class `io.edt.nf.EdtException`.

use std::any::Any;
use std::fmt;

use edt::error::Retry;
use jni::errors::ErrorPolicy;
use jni::objects::{JObject, JThrowable, JValue};
use jni::{Env, jni_sig, jni_str};

/// What can go wrong in a native.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The core failed.
    Core(edt::Error),
    /// The JVM failed; mostly an exception is pending.
    Jvm(jni::errors::Error),
}

impl From<edt::Error> for Failure {
    fn from(error: edt::Error) -> Self {
        Self::Core(error)
    }
}

impl From<jni::errors::Error> for Failure {
    fn from(error: jni::errors::Error) -> Self {
        Self::Jvm(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Core(error) => error.fmt(f),
            Self::Jvm(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Failure {}

/// Throws what failed, and returns nothing, 0 or false.
pub(crate) struct Throw;

impl<T: Default> ErrorPolicy<T, Failure> for Throw {
    type Captures<'unowned_env_local: 'native_method, 'native_method> = ();

    fn on_error<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        (): &mut Self::Captures<'unowned_env_local, 'native_method>,
        failure: Failure,
    ) -> jni::errors::Result<T> {
        if !env.exception_check() {
            let error = match failure {
                Failure::Core(error) => error,
                Failure::Jvm(error) => edt::Error::new(edt::ErrorKind::Io, "the JVM could not be called").with_cause(error),
            };
            throw(env, error.kind().name(), &error)?;
        }
        Ok(T::default())
    }

    fn on_panic<'unowned_env_local: 'native_method, 'native_method>(
        env: &mut Env<'unowned_env_local>,
        (): &mut Self::Captures<'unowned_env_local, 'native_method>,
        payload: Box<dyn Any + Send + 'static>,
    ) -> jni::errors::Result<T> {
        let said = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let said = said.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        let error = edt::Error::new(edt::ErrorKind::Io, "edt panicked").with_cause(said).with_hint("report this as a bug");
        throw(env, "panic", &error)?;
        Ok(T::default())
    }
}

fn throw(env: &mut Env<'_>, code: &str, error: &edt::Error) -> jni::errors::Result<()> {
    let code = env.new_string(code)?;
    let what = env.new_string(error.what())?;
    let cause = error.cause().map(|cause| env.new_string(cause)).transpose()?.unwrap_or_default();
    let hint = error.hint().map(|hint| env.new_string(hint)).transpose()?.unwrap_or_default();
    let transient = error.retry() != Retry::Never;
    let class = env.find_class(jni_str!("io/edt/nf/EdtException"))?;
    let arguments: [JValue; 5] = [(&code).into(), (&what).into(), (&cause).into(), (&hint).into(), transient.into()];
    let signature = jni_sig!("(Ljava/lang/String;Ljava/lang/String;Ljava/lang/String;Ljava/lang/String;Z)V");
    let made: JObject = env.new_object(class, signature, &arguments)?;
    let thrown = env.cast_local::<JThrowable>(made)?;
    // `throw` answers with an error, because an exception is pending from now on.
    let _ = env.throw(thrown);
    Ok(())
}
