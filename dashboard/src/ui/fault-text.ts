/** Makes sentences of the server's messages about form fields. Pure. */

const predicate = /^(?:is|are|was|has|have|can|cannot|must|may|needs|does|already)\b/

/**
 * Adds the label of the field to a message that describes the field without naming it, such as "must be a number".
 * @param label if it is a question, "This answer" is the subject instead
 */
export function faultText(label: string, fault: string): string {
  const subject = label.endsWith('?') ? 'This answer' : label
  const sentence = predicate.test(fault) ? `${subject} ${fault}` : fault.charAt(0).toUpperCase() + fault.slice(1)
  return /[.!?]$/.test(sentence) ? sentence : `${sentence}.`
}
