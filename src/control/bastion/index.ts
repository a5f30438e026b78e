/**
 * The control plane's part of the SSH bastions, which run in gateways: it checks logins, issues grants and stores the
 * bastions' host keys.
 */
export { grantMs, readGrant, writeGrant } from './grant.ts'
export { bastionKeys, hostKeyOptions, startBastionKeyReceiver } from './keys.ts'
export { type Logins, startLoginReceiver } from './logins.ts'
export {
  credentialOf,
  credentialText,
  isGranted,
  noteUse,
  type Person,
  personOfKey,
  personOfToken,
} from './person.ts'
export { readSigned, sign } from './signed.ts'
