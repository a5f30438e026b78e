/** What the SSH bastions of gateways need: logins, grants, and their host keys. */
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
