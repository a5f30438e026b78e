/** Self-signed certificates for tests. */
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

export interface TestCertificate {
  readonly chain: string
  readonly key: string
}

/** Writes `<file>.crt` and `<file>.key`. */
export async function makeCertificate(dir: string, file: string, names: readonly string[]): Promise<TestCertificate> {
  const [crt, key] = [join(dir, `${file}.crt`), join(dir, `${file}.key`)]
  await promisify(execFile)('openssl', [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'],
    ...['-subj', '/CN=test', '-addext', `subjectAltName=${names.map(name => `DNS:${name}`).join(',')}`],
    ...['-keyout', key, '-out', crt],
  ])
  return { chain: await readFile(crt, 'utf8'), key: await readFile(key, 'utf8') }
}
