// How a view keeps up with the kernel: messages into its lanes, a hello where something is missing.

const PACE_MS = 300; // between two hellos of a lane, so that the parts of a long run come at a pace

export class Feed {
  /** lanes: one LaneModel (or alike) a run. */
  constructor(view, lanes) {
    this.view = view;
    this.lanes = lanes;
    this.hellos = []; // per lane: when we said hello last, and the timer of the next one
    this.retries = [];
  }

  /** Ask for what comes after the last step, of one lane or of each. */
  hello(lane = null) {
    if (lane === null) {
      this.lanes.forEach((_, each) => this.hello(each));
      return;
    }
    const wait = (this.hellos[lane] ?? -Infinity) + PACE_MS - performance.now();
    if (wait > 0) {
      clearTimeout(this.retries[lane]);
      this.retries[lane] = setTimeout(() => this.hello(lane), wait);
      return;
    }
    this.hellos[lane] = performance.now();
    const { nextStep, nextEvent, stream } = this.lanes[lane];
    this.view.model.send({ hello: nextStep - 1, event: nextEvent, stream, lane });
  }

  /** Take a message with its frame; whether it was one of ours. */
  receive(message, buffers) {
    const { view } = this;
    view.heard = performance.now();
    const lane = this.lanes[message.lane];
    if (!lane || !buffers?.length) return false;
    view.stats.messages += 1;
    const outcome = lane.apply(message, buffers[0]);
    if (outcome === "gap") view.stats.gaps += 1;
    const more = message.more && lane.nextStep === message.next_step;
    if (outcome === "gap" || more) this.hello(message.lane);
    if (message.header) view.refreshTexts();
    view.request();
    return true;
  }

  destroy() {
    this.retries.forEach(clearTimeout);
  }
}
