/**
 * Dialogs on the native `<dialog>`: it traps and restores the focus and closes on Escape, without the inline styles of
 * dialog libraries, which the content security policy forbids.
 */
import { X } from 'lucide-react'
import { type ReactNode, useLayoutEffect, useId, useRef, useState } from 'react'
import { Button } from './button.tsx'
import { cx } from './cx.ts'
import { Field, Form, type Values } from './form.tsx'

interface DialogProps {
  readonly title: string
  readonly lead?: ReactNode
  readonly close: () => void
  readonly children: ReactNode
  readonly wide?: boolean
}

const fields = 'input:not([type=hidden], [type=file]):not(:disabled), select:not(:disabled), textarea:not(:disabled)'

export function Dialog({ title, lead, close, children, wide = false }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const id = useId()
  // A layout effect, because its cleanup runs before the element is removed: a removed dialog cannot restore the focus.
  useLayoutEffect(() => {
    const element = dialog.current
    element?.showModal()
    // Focus the first field: the browser would focus the close button, which comes first. React does not write
    // `autofocus`.
    element?.querySelector<HTMLElement>(fields)?.focus()
    return () => element?.close()
  }, [])
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      onCancel={event => {
        event.preventDefault()
        close()
      }}
      onMouseDown={event => {
        if (event.target === event.currentTarget) close()
      }}
      className={cx(
        'm-auto w-[calc(100vw-2rem)] rounded-xl border border-line bg-raised p-0 text-left text-text shadow-(--shadow)',
        wide ? 'max-w-2xl' : 'max-w-md',
      )}
    >
      <div className="p-5">
        <div className="mb-4 flex items-start justify-between gap-4">
          <div className="min-w-0">
            <h2 id={id} className="text-base font-semibold">
              {title}
            </h2>
            {lead && <p className="mt-1 text-muted">{lead}</p>}
          </div>
          <Button look="quiet" size="smallIcon" aria-label="Close" onClick={close}>
            <X aria-hidden="true" size={16} />
          </Button>
        </div>
        {children}
      </div>
    </dialog>
  )
}

interface Opening {
  /** Whether the dialog is open as soon as it is rendered, because another element, such as a menu item, opens it. */
  readonly open?: boolean
  readonly onClose?: () => void
}

/** A button and the dialog that it opens. `children` receives the function that closes it. */
export function DialogButton({
  trigger,
  children,
  open = false,
  onClose,
  ...dialog
}: Omit<DialogProps, 'close' | 'children'> &
  Opening & {
    readonly trigger: (open: () => void) => ReactNode
    readonly children: (close: () => void) => ReactNode
  }) {
  const [isOpen, setOpen] = useState(open)
  const close = () => {
    setOpen(false)
    onClose?.()
  }
  return (
    <>
      {trigger(() => setOpen(true))}
      {isOpen && (
        <Dialog {...dialog} close={close}>
          {children(close)}
        </Dialog>
      )}
    </>
  )
}

/** A dialog with a form; closes after the server has accepted it. */
export function FormDialog({
  submit,
  send,
  fields,
  look = 'primary',
  ...dialog
}: Omit<DialogProps, 'close' | 'children'> &
  Opening & {
    readonly trigger: (open: () => void) => ReactNode
    readonly submit: string
    readonly look?: 'primary' | 'danger'
    readonly send: (values: Values) => Promise<unknown>
    readonly fields?: ReactNode
  }) {
  return (
    <DialogButton {...dialog}>
      {close => (
        <Form
          submit={submit}
          look={look}
          send={async values => {
            await send(values)
            close()
          }}
          secondary={
            <Button look="quiet" onClick={close}>
              Cancel
            </Button>
          }
        >
          {fields}
        </Form>
      )}
    </DialogButton>
  )
}

/**
 * Escapes a name for `pattern`, which is a regular expression with the flag v: other characters must not be escaped.
 */
const escaped = (name: string) => name.replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&')

/** A dialog that asks the user to type the name of a resource before deleting it. */
export function Destroy({
  name,
  what,
  consequence,
  verb = 'Delete',
  send,
  trigger,
  fields,
  ...opening
}: Opening & {
  /** Name of the resource, which the user has to type. */
  readonly name: string
  readonly what: string
  readonly consequence: ReactNode
  readonly verb?: string
  /** Fields in addition to the one for the name. */
  readonly fields?: ReactNode
  readonly send: (values: Values) => Promise<unknown>
  readonly trigger: (open: () => void) => ReactNode
}) {
  return (
    <FormDialog
      {...opening}
      trigger={trigger}
      title={`${verb} ${what}`}
      lead={consequence}
      look="danger"
      submit={`${verb} ${name}`}
      send={send}
      fields={
        <>
          <Field
            label={`Type ${name} to confirm`}
            name="confirmation"
            mono
            required
            autoComplete="off"
            spellCheck={false}
            pattern={escaped(name)}
            title={`Exactly: ${name}`}
          />
          {fields}
        </>
      }
    />
  )
}
