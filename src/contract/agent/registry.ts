/** Credentials of registries, which a host asks the control plane for when it pulls an image. */
import { type Static, Type } from 'typebox'

/** A request of the host of the VM, or of the build, for an image that the build starts from. */
export const RegistryLoginRequest = Type.Object({
  /** Or the id of a build. */
  vmId: Type.String(),
  /** Only for a build: one that it starts from, or the one that it pushes. Earlier control planes ignore it, and know no VM with the id of a build. */
  image: Type.Optional(Type.String()),
})
export type RegistryLoginRequest = Static<typeof RegistryLoginRequest>

export const RegistryLogin = Type.Object({
  /** The only registry that the credential is for. */
  host: Type.String(),
  username: Type.String(),
  password: Type.String(),
  /** The registry is that of the installation: its address may be private. Hosts of earlier releases ignore it. */
  own: Type.Optional(Type.Object({ plainHttp: Type.Boolean() })),
})
export type RegistryLogin = Static<typeof RegistryLogin>

/** Null: the project of the VM has no credential for the registry of the VM's image. */
export const RegistryLoginAnswer = Type.Object({ login: Type.Union([RegistryLogin, Type.Null()]) })
export type RegistryLoginAnswer = Static<typeof RegistryLoginAnswer>
