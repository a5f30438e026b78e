/** The address at which the host reaches the program in a VM. */
export interface Endpoint {
  readonly host: string
  readonly port: number
}
