import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

const EC = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];

const openssl = (folder: string, ...args: string[]) =>
  void execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' });

/** Creates `NAME.pem` and `NAME.key` of a certificate authority in a folder. */
export function makeAuthority(folder: string, name: string): void {
  openssl(folder, 'req', '-x509', ...EC, '-subj', `/CN=${name}`, '-keyout', `${name}.key`, '-out', `${name}.pem`);
}

/** Creates `NAME.pem` and `NAME.key` for localhost in a folder, signed by an authority in that folder. */
export function makeCertificate(folder: string, name: string, authority: string): void {
  writeFileSync(join(folder, 'names.ext'), 'subjectAltName=DNS:localhost,IP:127.0.0.1\n');
  openssl(folder, 'req', ...EC, '-subj', `/CN=${name}`, '-keyout', `${name}.key`, '-out', `${name}.csr`);
  const signing = ['-CA', `${authority}.pem`, '-CAkey', `${authority}.key`, '-CAcreateserial', '-days', '2'];
  openssl(folder, 'x509', '-req', '-in', `${name}.csr`, ...signing, '-extfile', 'names.ext', '-out', `${name}.pem`);
}
