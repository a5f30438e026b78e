import type { User } from '@mote/client'
import { api } from '../../api/client.ts'
import { ActionButton } from '../../ui/action.tsx'
import { Button } from '../../ui/button.tsx'
import { FormDialog } from '../../ui/dialog.tsx'
import { Field } from '../../ui/form.tsx'
import { Card } from '../../ui/layout.tsx'
import { toast } from '../../ui/toast.tsx'

/** The address of the account: whether it is verified, and another one instead. */
export function Email({ user }: { readonly user: User }) {
  return (
    <Card
      title="E-mail address"
      lead={user.email_verified ? 'Verified.' : 'Not verified yet: open the link that was mailed to it.'}
    >
      <div className="flex flex-wrap items-center gap-3">
        <span className="flex-1 wrap-anywhere">{user.email}</span>
        {!user.email_verified && (
          <ActionButton done="A link is on its way" act={() => api.sendVerification()}>
            Send the link again
          </ActionButton>
        )}
        <FormDialog
          title="Change the e-mail address"
          lead="We mail a link to the new address; the change takes effect when it is opened."
          submit="Send the link"
          trigger={open => <Button onClick={open}>Change</Button>}
          send={async values => {
            await api.changeEmail({ body: { email: values.text('email'), password: values.text('password') } })
            toast({ tone: 'good', title: 'A link is on its way to the new address' })
          }}
          fields={
            <>
              <Field label="New e-mail" name="email" type="email" required autoFocus autoComplete="email" />
              <Field label="Password" name="password" type="password" required autoComplete="current-password" />
            </>
          }
        />
      </div>
    </Card>
  )
}
