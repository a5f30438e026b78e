/** Types of system-packages.mjs, which is plain JavaScript because the bootstrap runs it before anything is installed. */
export const packages: readonly { readonly name: string; readonly probe: readonly string[] }[]
