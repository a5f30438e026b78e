/**
 * Object storage as the target of a database's backups and log: how the target is stored, and which environment
 * variables the database's VMs get for it.
 */
import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import type { Vault } from '../../lib/vault.ts'
import { invalidField } from '../http/errors.ts'
import type { Branch } from './store.ts'

const purpose = 'database.backup_target'

/** An object storage bucket with the Amazon S3 API, addressed by path (`https://endpoint/bucket/key`), over TLS. */
export const BackupTarget = Type.Object({
  host: Type.String(),
  port: Type.Integer(),
  region: Type.String(),
  bucket: Type.String(),
  /** Prefix of all keys in the bucket, without a slash at either end. */
  prefix: Type.String(),
  accessKey: Type.String(),
  secretKey: Type.String(),
  /** Certificate of a private certificate authority, in PEM; empty if the target has a public certificate. */
  caCertificate: Type.String(),
})
export type BackupTarget = Static<typeof BackupTarget>

export interface TargetRequest {
  readonly endpoint: string
  readonly region?: string | null
  readonly bucket: string
  readonly prefix?: string | null
  readonly access_key: string
  readonly secret_key: string
  readonly ca_certificate?: string | null
}

/**
 * Validates the backup target in a request, so that its values cannot break out of a configuration line.
 * @throws ApiError 400 naming the field
 */
export function targetOf(request: TargetRequest): BackupTarget {
  const { bucket, access_key: accessKey, secret_key: secretKey } = request
  const [region, prefix] = [request.region ?? 'us-east-1', request.prefix ?? 'mote']
  const caCertificate = request.ca_certificate ?? ''
  const url = URL.canParse(request.endpoint) ? new URL(request.endpoint) : undefined
  if (url?.protocol !== 'https:' || url.pathname !== '/' || url.search || url.username)
    throw invalidField('endpoint', 'must have the form https://s3.example.com or https://s3.example.com:9000')
  check('bucket', bucket, /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'must be the name of a bucket')
  check('region', region, /^[a-z0-9-]{1,60}$/, 'must be the name of a region')
  check(
    'prefix',
    prefix,
    /^[\w.-]+(\/[\w.-]+)*$/,
    'must contain letters, digits, ".", "_", "-" and slashes between them',
  )
  check('access_key', accessKey, /^[\x21-\x7e]{1,128}$/, 'must be printable, without spaces')
  check('secret_key', secretKey, /^[\x21-\x7e]{1,256}$/, 'must be printable, without spaces')
  check('ca_certificate', caCertificate, /^(-----BEGIN CERTIFICATE-----[\w+/=\s-]+)?$/, 'must be a certificate (PEM)')
  const [host, port] = [url.hostname, Number(url.port || 443)]
  return { host, port, region, bucket, prefix, accessKey, secretKey, caCertificate }
}

function check(field: string, value: string, form: RegExp, means: string): void {
  if (value.length > 20_000 || !form.test(value)) throw invalidField(field, means)
}

export const sealTarget = (vault: Vault, target: BackupTarget): Buffer => vault.seal(purpose, JSON.stringify(target))

export function openTarget(vault: Vault, sealed: Buffer): BackupTarget {
  return Value.Parse(BackupTarget, JSON.parse(vault.open(purpose, sealed)))
}

/**
 * Returns the path of a branch's backups in the bucket. The backups remain when the branch is deleted, because the
 * bucket belongs to the user.
 */
const pathOf = ({ prefix }: BackupTarget, databaseId: string, branchId: string) =>
  `/${prefix}/${databaseId}/${branchId}`

export const targetName = ({ bucket, prefix }: BackupTarget): string => `s3://${bucket}/${prefix}`

const env = (name: string) => `PGBACKREST_REPO1_${name}`

/**
 * Returns the environment variables that configure pgBackRest for the target (user guide 2.45, "S3-Compatible Object
 * Store Support").
 */
export function backupEnv(
  { vault }: { readonly vault: Vault },
  b: Pick<Branch, 'id' | 'databaseId' | 'parentId' | 'fromMoment' | 'backupTarget'>,
): Record<string, string> {
  if (b.backupTarget === null) return {}
  const target = openTarget(vault, b.backupTarget)
  const ca = target.caCertificate === '' ? '/etc/ssl/certs/ca-certificates.crt' : '/run/pgbackrest/ca.crt'
  return {
    [env('TYPE')]: 's3',
    [env('PATH')]: pathOf(target, b.databaseId, b.id),
    [env('S3_URI_STYLE')]: 'path',
    [env('S3_ENDPOINT')]: target.host,
    [env('STORAGE_PORT')]: String(target.port),
    [env('S3_REGION')]: target.region,
    [env('S3_BUCKET')]: target.bucket,
    [env('S3_KEY')]: target.accessKey,
    [env('S3_KEY_SECRET')]: target.secretKey,
    [env('STORAGE_CA_FILE')]: ca,
    MOTE_BACKUP_CA: target.caCertificate,
    MOTE_RESTORE_PATH: b.fromMoment !== null && b.parentId ? pathOf(target, b.databaseId, b.parentId) : '',
  }
}
