const vmIdPattern = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/

/** VM ids become file names: anything else is refused. */
export function isVmId(text: string): boolean {
  return vmIdPattern.test(text)
}
