//! The process-wide TLS provider.

use std::sync::OnceLock;

/// Why [`install_crypto_provider`] refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// Some library installed its own provider before us.
    #[error(
        "failed to install the aws-lc-rs TLS provider: another one is installed already; \
         call install_crypto_provider first thing in main"
    )]
    AlreadyInstalled,
}

/// Makes aws-lc-rs the TLS provider of this process. Call it first thing in `main`; further calls do nothing.
///
/// # Errors
/// [`ProviderError::AlreadyInstalled`] when something else installed a provider before.
pub fn install_crypto_provider() -> Result<(), ProviderError> {
    // rustls keeps the provider process-wide and offers no way to ask whose it is, so our own call is remembered.
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    let ours =
        *INSTALLED.get_or_init(|| rustls::crypto::aws_lc_rs::default_provider().install_default().is_ok());
    if ours { Ok(()) } else { Err(ProviderError::AlreadyInstalled) }
}
