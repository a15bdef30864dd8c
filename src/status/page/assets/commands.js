/** Confirms and sends commands of auto-cancel and shows the response. commands.ts renders the buttons. */

const dialog = document.querySelector('#command');

function setUp(dialog) {
  const [question, about, reasonField, alarm, yes, no] = [
    '#command-question',
    '.command-about',
    '[data-for-reason]',
    '[role=alert]',
    '[data-yes]',
    '[data-no]',
  ].map(selector => dialog.querySelector(selector));
  const reason = reasonField.querySelector('input');
  const answer = document.querySelector('#command-answer');
  let asked;

  function open(button) {
    const { command, action } = button.dataset;
    asked = { command, body: command === 'approve' ? { action } : undefined };
    question.textContent = button.dataset.question;
    const facts = button.closest('li')?.querySelector('[data-about]')?.cloneNode(true);
    about.replaceChildren(...(facts && command === 'approve' ? [facts] : []));
    reasonField.hidden = command === 'approve';
    reason.required = command !== 'approve';
    reason.value = '';
    yes.textContent = { approve: 'Cancel it', pause: 'Pause', resume: 'Resume' }[command];
    yes.disabled = false;
    alarm.hidden = true;
    dialog.showModal();
  }

  /** Shows an error in the open dialog, or on the page if the dialog now shows another command. */
  function refuse(own, text) {
    if (own !== asked || !dialog.open) return show(text);
    alarm.textContent = text;
    alarm.hidden = false;
    yes.disabled = false;
  }

  function show(text) {
    answer.textContent = text;
    answer.hidden = false;
  }

  async function send() {
    const own = asked;
    yes.disabled = true;
    alarm.hidden = true;
    const body = own.body ?? { reason: reason.value };
    const headers = { 'Content-Type': 'application/json' };
    try {
      const response = await fetch(dialog.dataset.commands + own.command, {
        method: 'POST',
        headers,
        body: JSON.stringify(body),
      });
      const { error, before, holds = [] } = await response.json();
      if (!response.ok) return refuse(own, `${error ?? `The agent returned status ${response.status}`}.`);
      const done = {
        approve:
          holds.length === 0
            ? 'Approved: the callback is cancelled after the next complete walk if it is still stuck.'
            : `Approved, but nothing is sent until ${holds.join(' and ')}.`,
        pause: 'Paused: no cancel is sent.',
        resume:
          before === undefined ? 'Auto-cancel was not paused: nothing changed.' : 'Resumed: cancels may be sent again.',
      };
      show(error ?? done[own.command]);
      if (own === asked) dialog.close();
      // client.js updates the page.
      document.dispatchEvent(new Event('changed'));
    } catch (cause) {
      refuse(
        own,
        `The agent can’t be reached (${cause.message}). It may have received the command: check the journal.`,
      );
    }
  }

  document.addEventListener('click', ({ target }) => {
    const button = target.closest?.('button[data-command]');
    if (button) open(button);
  });
  no.addEventListener('click', () => dialog.close());
  dialog.querySelector('form').addEventListener('submit', event => {
    event.preventDefault();
    send();
  });
}

if (dialog) setUp(dialog);
