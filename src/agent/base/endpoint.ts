/** Where the program in a VM is reached from its host. */
export interface Endpoint {
  readonly host: string
  readonly port: number
}
