//! Certificates and keys. Each control plane has new ones.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// The directory of a control plane's keys.
#[derive(Debug, Clone)]
pub struct Pki(PathBuf);

impl Pki {
    pub fn create(dir: &Path) -> Result<Self> {
        let pki = Self(dir.join("pki"));
        fs::create_dir_all(&pki.0).with_context(|| format!("create {}", pki.0.display()))?;

        let ca = pki.authority("ca")?;
        let mut serving = named("localkube")?;
        serving.subject_alt_names = CertificateParams::new(vec![
            "localhost".to_owned(),
            "127.0.0.1".to_owned(),
            "kubernetes.default.svc".to_owned(),
        ])?
        .subject_alt_names;
        serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        pki.signed("serving", serving, &ca)?;

        // A separate authority: a client with a certificate of this authority may claim to be any user.
        let front_proxy_ca = pki.authority("front-proxy-ca")?;
        let mut front_proxy = named(FRONT_PROXY_CLIENT)?;
        front_proxy.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        pki.signed(FRONT_PROXY_CLIENT, front_proxy, &front_proxy_ca)?;
        // For tests that pretend to be the front proxy: with a wrong name, and of a wrong authority.
        for (file, name, authority) in [
            ("front-proxy-wrong-name", "impostor", &front_proxy_ca),
            ("front-proxy-wrong-ca", FRONT_PROXY_CLIENT, &ca),
        ] {
            let mut impostor = named(name)?;
            impostor.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            pki.signed(file, impostor, authority)?;
        }

        let service_account = KeyPair::generate()?;
        pki.write("service-account.key", &service_account.serialize_pem())?;
        pki.write("service-account.pub", &service_account.public_key_pem())?;
        Ok(pki)
    }

    /// Opens the keys of a running control plane.
    pub fn open(dir: &Path) -> Self {
        Self(dir.join("pki"))
    }

    pub fn cert(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.crt"))
    }

    pub fn key(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.key"))
    }

    pub fn service_account_public_key(&self) -> PathBuf {
        self.0.join("service-account.pub")
    }

    fn authority(&self, name: &str) -> Result<Issuer<'static, KeyPair>> {
        let mut params = named(&format!("localkube {name}"))?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        self.write(&format!("{name}.crt"), &params.self_signed(&key)?.pem())?;
        Ok(Issuer::new(params, key))
    }

    fn signed(
        &self,
        name: &str,
        mut params: CertificateParams,
        issuer: &Issuer<'static, KeyPair>,
    ) -> Result<()> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        self.write(&format!("{name}.crt"), &params.signed_by(&key, issuer)?.pem())?;
        self.write(&format!("{name}.key"), &key.serialize_pem())
    }

    fn write(&self, file: &str, pem: &str) -> Result<()> {
        let path = self.0.join(file);
        fs::write(&path, pem).with_context(|| format!("write {}", path.display()))
    }
}

/// The common name of kube-apiserver's certificate for aggregated servers.
pub const FRONT_PROXY_CLIENT: &str = "front-proxy-client";

fn named(common_name: &str) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, common_name);
    Ok(params)
}
